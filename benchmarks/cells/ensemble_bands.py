"""Bands of an ensemble forecast: median, 10% and 90% of its members, how often a threshold is exceeded."""

import torch


class EnsembleBands(torch.nn.Module):
    def __init__(self, low=0.1, high=0.9, threshold=1.0):
        super().__init__()
        self.low, self.high, self.threshold = low, high, threshold

    def forward(self, members, climate):
        anomaly = members - climate
        low = torch.quantile(anomaly, self.low, dim=0)
        high = torch.quantile(anomaly, self.high, dim=0)
        median = anomaly.median(dim=0).values
        exceeded = (anomaly > self.threshold).float().mean(dim=0)
        return median, low, high, (high - low).mean(), exceeded


inputs = [torch.randn(15, 1024, 1000), torch.randn(1024, 1000) * 0.3]
