"""Discretised mixture of logistics negative log likelihood of PixelCNN++ on RGB images."""

import math

import torch
import torch.nn.functional as F


class LogisticMixtureLoss(torch.nn.Module):
    def __init__(self, mixtures=10):
        super().__init__()
        self.m = mixtures

    def forward(self, x, raw):
        x = x.permute(0, 2, 3, 1)
        raw = raw.permute(0, 2, 3, 1)
        m = self.m
        logit_probs = raw[..., :m]
        raw = raw[..., m:].contiguous().view(*x.shape, m * 3)
        means = raw[..., :m]
        log_scales = torch.clamp(raw[..., m : 2 * m], min=-7.0)
        coeffs = torch.tanh(raw[..., 2 * m : 3 * m])
        x = x.unsqueeze(-1).expand(-1, -1, -1, -1, m)
        m2 = means[:, :, :, 1, :] + coeffs[:, :, :, 0, :] * x[:, :, :, 0, :]
        m3 = (
            means[:, :, :, 2, :]
            + coeffs[:, :, :, 1, :] * x[:, :, :, 0, :]
            + coeffs[:, :, :, 2, :] * x[:, :, :, 1, :]
        )
        means = torch.stack((means[:, :, :, 0, :], m2, m3), dim=3)
        centered = x - means
        inv_std = torch.exp(-log_scales)
        plus_in = inv_std * (centered + 1.0 / 255.0)
        min_in = inv_std * (centered - 1.0 / 255.0)
        cdf_delta = torch.sigmoid(plus_in) - torch.sigmoid(min_in)
        mid_in = inv_std * centered
        log_pdf_mid = mid_in - log_scales - 2.0 * F.softplus(mid_in)
        inner = torch.where(
            cdf_delta > 1e-5, torch.log(torch.clamp(cdf_delta, min=1e-12)), log_pdf_mid - math.log(127.5)
        )
        inner = torch.where(x > 0.999, -F.softplus(min_in), inner)
        log_probs = torch.where(x < -0.999, plus_in - F.softplus(plus_in), inner)
        log_probs = log_probs.sum(dim=3) + F.log_softmax(logit_probs, dim=-1)
        return -torch.logsumexp(log_probs, dim=-1).sum(dim=(1, 2)) / (math.log(2.0) * 3072)


inputs = [(torch.randint(0, 256, (96, 3, 32, 32)).float() - 127.5) / 127.5, torch.randn(96, 100, 32, 32)]
