"""Root mean squared error of forecasts, a figure a variable, weighed by the cosine of the latitude."""

import torch


def latitude_rmse(forecast, truth, latitude):
    weight = torch.cos(torch.deg2rad(latitude))
    weight = weight / weight.mean()
    error = (forecast - truth) ** 2 * weight[None, None, :, None]
    return torch.sqrt(error.mean(dim=(-2, -1))).mean(0)


inputs = [torch.randn(6, 32, 181, 360), torch.randn(6, 32, 181, 360), torch.linspace(-90, 90, 181)]
