"""Masks of time and of frequency over spectrograms, filled with each one's mean."""

import torch


class SpecAugment(torch.nn.Module):
    def __init__(self, freq_masks=2, time_masks=2, fill="mean"):
        super().__init__()
        self.freq_masks, self.time_masks, self.fill = freq_masks, time_masks, fill

    def forward(self, spec, f0, fw, t0, tw):
        b, f, t = spec.shape
        freqs = torch.arange(f, device=spec.device).view(1, f, 1)
        times = torch.arange(t, device=spec.device).view(1, 1, t)
        mask = torch.zeros(b, f, t, dtype=torch.bool, device=spec.device)
        for i in range(self.freq_masks):
            start, width = f0[:, i].view(b, 1, 1), fw[:, i].view(b, 1, 1)
            mask |= (freqs >= start) & (freqs < start + width)
        for i in range(self.time_masks):
            start, width = t0[:, i].view(b, 1, 1), tw[:, i].view(b, 1, 1)
            mask |= (times >= start) & (times < start + width)
        value = spec.mean(dim=(1, 2), keepdim=True) if self.fill == "mean" else spec.new_zeros(())
        return torch.where(mask, value, spec)


inputs = [
    torch.randn(64, 80, 3000),
    torch.randint(0, 60, (64, 2)),
    torch.randint(0, 20, (64, 2)),
    torch.randint(0, 2800, (64, 2)),
    torch.randint(0, 100, (64, 2)),
]
