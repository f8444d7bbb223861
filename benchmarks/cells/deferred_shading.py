"""Cook-Torrance shading of a G-buffer by a few point lights, ACES tone curve, gamma."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class GgxShade(nn.Module):
    def __init__(self, gamma=2.2):
        super().__init__()
        self.gamma = gamma

    def forward(self, pos, normal, albedo, roughness, metallic, cam, light_pos, light_col):
        n = F.normalize(normal, dim=-1)
        v = F.normalize(cam - pos, dim=-1)
        f0 = torch.lerp(torch.full_like(albedo, 0.04), albedo, metallic)
        a2 = roughness.pow(4)
        k = (roughness + 1).square() / 8
        nv = (n * v).sum(-1, keepdim=True).clamp(min=1e-4)
        color = 0.03 * albedo
        for i in range(light_pos.shape[0]):
            to_light = light_pos[i] - pos
            dist2 = (to_light * to_light).sum(-1, keepdim=True)
            way = to_light / dist2.sqrt().clamp(min=1e-6)
            h = F.normalize(way + v, dim=-1)
            nl = (n * way).sum(-1, keepdim=True).clamp(min=0)
            nh = (n * h).sum(-1, keepdim=True).clamp(min=0)
            vh = (v * h).sum(-1, keepdim=True).clamp(0, 1)
            d = a2 / (torch.pi * (nh * nh * (a2 - 1) + 1).square()).clamp(min=1e-7)
            g = (nv / (nv * (1 - k) + k)) * (nl / (nl * (1 - k) + k))
            f = f0 + (1 - f0) * (1 - vh).pow(5)
            spec = d * g * f / (4 * nv * nl + 1e-4)
            kd = (1 - f) * (1 - metallic)
            color = color + (kd * albedo / torch.pi + spec) * light_col[i] / dist2 * nl
        x = color
        x = (x * (2.51 * x + 0.03)) / (x * (2.43 * x + 0.59) + 0.14)
        return x.clamp(0, 1).pow(1 / self.gamma)


_s = (1080, 1920)
inputs = [
    torch.randn(*_s, 3),
    torch.randn(*_s, 3),
    torch.rand(*_s, 3),
    torch.rand(*_s, 1) * 0.9 + 0.05,
    torch.rand(*_s, 1),
    torch.tensor([0.0, 0.0, 5.0]),
    torch.randn(4, 3) * 4,
    torch.rand(4, 3) * 20,
]
