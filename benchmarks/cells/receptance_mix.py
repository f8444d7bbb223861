"""The weighed keys and values of an RWKV layer, step by step, with its running maximum."""

import torch


def receptance_mix(k, v, decay, bonus):
    B, T, C = k.shape
    w = -torch.exp(decay)
    num = torch.zeros(B, C, device=k.device)
    den = torch.zeros(B, C, device=k.device)
    top = torch.full((B, C), -1e38, device=k.device)
    outs = []
    for t in range(T):
        kt, vt = k[:, t], v[:, t]
        q = torch.maximum(top, bonus + kt)
        e1, e2 = torch.exp(top - q), torch.exp(bonus + kt - q)
        outs.append((e1 * num + e2 * vt) / (e1 * den + e2))
        q = torch.maximum(top + w, kt)
        e1, e2 = torch.exp(top + w - q), torch.exp(kt - q)
        num, den, top = e1 * num + e2 * vt, e1 * den + e2, q
    return torch.stack(outs, dim=1)


inputs = [torch.randn(64, 32, 2048), torch.randn(64, 32, 2048), torch.randn(2048), torch.randn(2048)]
