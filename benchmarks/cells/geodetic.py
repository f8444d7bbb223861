"""Latitude, longitude and height of points given from the centre of the earth."""

import torch


def geodetic(xyz):
    a, f = 6378137.0, 1 / 298.257223563
    e2 = f * (2 - f)
    x, y, z = xyz.T
    lon = torch.atan2(y, x)
    p = torch.hypot(x, y)
    lat = torch.atan2(z, p * (1 - e2))
    for _ in range(4):
        sin = torch.sin(lat)
        n = a / torch.sqrt(1 - e2 * sin * sin)
        lat = torch.atan2(z + e2 * n * sin, p)
    sin, cos = torch.sin(lat), torch.cos(lat)
    n = a / torch.sqrt(1 - e2 * sin**2)
    h = torch.where(cos.abs() > 1e-3, p / cos - n, z / sin - n * (1 - e2))
    return torch.stack([torch.rad2deg(lat), torch.rad2deg(lon), h], dim=1)


inputs = [torch.nn.functional.normalize(torch.randn(1000000, 3), dim=-1) * 6378137.0 * 1.001]
