"""Linear prediction of speech frames: window, autocorrelation, Levinson-Durbin of order 12, what is left."""

import torch
import torch.nn as nn


class Lpc(nn.Module):
    def __init__(self, frame=400, hop=160, order=12):
        super().__init__()
        self.frame, self.hop, self.order = frame, hop, order
        self.register_buffer("window", torch.hamming_window(frame, periodic=False))

    def forward(self, wav):
        x = wav.unfold(-1, self.frame, self.hop) * self.window
        r = torch.stack(
            [(x[..., : self.frame - k] * x[..., k:]).sum(-1) for k in range(self.order + 1)], dim=-1
        )
        r[..., 0] *= 1.0001
        a = torch.zeros_like(r)
        a[..., 0] = 1.0
        e = r[..., 0] + 1e-9
        ks = []
        for i in range(1, self.order + 1):
            acc = (a[..., :i] * r[..., 1 : i + 1].flip(-1)).sum(-1)
            k = -acc / e
            a_new = a.clone()
            a_new[..., 1 : i + 1] = a[..., 1 : i + 1] + k.unsqueeze(-1) * a[..., :i].flip(-1)
            a = a_new
            e = e * (1 - k * k)
            ks.append(k)
        return a, torch.stack(ks, -1), 10 * torch.log10(e.clamp(min=1e-10))


inputs = [torch.randn(64, 16000 * 10)]
