"""KIVI: keys to 2 bits by channel over 32 tokens, values by token over 32 channels, sixteen codes a word."""

import torch
from torch import Tensor


def pack2(codes: Tensor) -> Tensor:
    c = codes.to(torch.int32).view(*codes.shape[:-1], codes.shape[-1] // 16, 16)
    shifts = torch.arange(0, 32, 2, device=codes.device, dtype=torch.int32)
    return (c << shifts).sum(dim=-1, dtype=torch.int32)


def quantize_last(x: Tensor, group: int, levels: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    g = x.unflatten(-1, (x.shape[-1] // group, group))
    mn = g.min(dim=-1, keepdim=True)[0]
    mx = g.max(dim=-1, keepdim=True)[0]
    scale = (mx - mn) / levels
    codes = g.sub(mn).div(scale.clamp(min=1e-6)).clamp(0, levels).round()
    return pack2(codes.flatten(-2)), scale.squeeze(-1), mn.squeeze(-1)


def kivi_cache(key: Tensor, value: Tensor, group: int = 32, residual: int = 128):
    _b, _h, t, _d = key.shape
    assert (t - residual) % group == 0, f"{t - residual} tokens do not fill groups of {group}"
    old = t - residual
    k = key[:, :, :old].transpose(2, 3).contiguous()
    k_codes, k_scale, k_min = quantize_last(k, group)
    v_codes, v_scale, v_min = quantize_last(value[:, :, :old].contiguous(), group)
    return (
        k_codes,
        k_scale,
        k_min,
        v_codes,
        v_scale,
        v_min,
        key[:, :, old:].clone(),
        value[:, :, old:].clone(),
    )


inputs = [
    torch.randn(4, 8, 3200, 128, dtype=torch.float16) * torch.rand(128).half().mul(3),
    torch.randn(4, 8, 3200, 128, dtype=torch.float16),
]
