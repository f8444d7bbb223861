"""Hourly temperature and dewpoint (K) to NWS heat index, Stull wet bulb and a class of risk."""

import torch


def heat_stress(t2m, d2m):
    tc = t2m - 273.15
    dc = d2m - 273.15
    es = 6.112 * torch.exp(17.67 * tc / (tc + 243.5))
    e = 6.112 * torch.exp(17.67 * dc / (dc + 243.5))
    rh = (100.0 * e / es).clamp(1.0, 100.0)

    f = tc * 1.8 + 32
    simple = 0.5 * (f + 61.0 + (f - 68.0) * 1.2 + rh * 0.094)
    full = (
        -42.379
        + 2.04901523 * f
        + 10.14333127 * rh
        - 0.22475541 * f * rh
        - 6.83783e-3 * f**2
        - 5.481717e-2 * rh**2
        + 1.22874e-3 * f**2 * rh
        + 8.5282e-4 * f * rh**2
        - 1.99e-6 * f**2 * rh**2
    )
    dry = (13 - rh) / 4 * torch.sqrt(((17 - (f - 95).abs()) / 17).clamp(min=0))
    wet = (rh - 85) / 10 * (87 - f) / 5
    full = torch.where((rh < 13) & (f > 80) & (f < 112), full - dry, full)
    full = torch.where((rh > 85) & (f > 80) & (f < 87), full + wet, full)
    hi = torch.where((simple + f) / 2 < 80, simple, full)

    wb = (
        tc * torch.atan(0.151977 * (rh + 8.313659) ** 0.5)
        + torch.atan(tc + rh)
        - torch.atan(rh - 1.676331)
        + 0.00391838 * rh**1.5 * torch.atan(0.023101 * rh)
        - 4.686035
    )
    risk = torch.where(
        hi < 80, 0, torch.where(hi < 90, 1, torch.where(hi < 103, 2, torch.where(hi < 125, 3, 4)))
    )
    return (hi - 32) / 1.8, wb, risk.to(torch.uint8)


inputs = [torch.randn(5, 721, 1440) * 12 + 295, torch.randn(5, 721, 1440) * 8 + 284]
