"""Integrated loudness after ITU-R BS.1770: overlapped blocks, two gates, gain to target."""

import torch


class IntegratedLoudness(torch.nn.Module):
    def __init__(self, rate=48000, block=0.4, overlap=0.75, target=-23.0):
        super().__init__()
        self.size = int(rate * block)
        self.hop = round(self.size * (1 - overlap))
        self.target = target
        self.register_buffer("channel_gain", torch.tensor([1.0, 1.0, 1.0, 1.41, 1.41]))

    def forward(self, audio):
        gains = self.channel_gain[: audio.shape[1]]
        blocks = audio.unfold(-1, self.size, self.hop)
        z = blocks.pow(2).mean(dim=-1)
        power = (gains[None, :, None] * z).sum(dim=1)
        loudness = -0.691 + 10 * torch.log10(power.clamp_min(1e-10))
        gated = (loudness > -70.0).float()
        z_avg = (z * gated.unsqueeze(1)).sum(-1) / gated.sum(-1, keepdim=True).clamp(min=1)
        gamma = -0.691 + 10.0 * torch.log10((gains * z_avg).sum(-1).clamp_min(1e-10)) - 10.0
        both = ((loudness > -70.0) & (loudness > gamma[:, None])).float()
        z_avg = (z * both.unsqueeze(1)).sum(-1) / both.sum(-1, keepdim=True).clamp(min=1)
        lufs = (-0.691 + 10.0 * torch.log10((gains * z_avg).sum(-1).clamp_min(1e-10))).clamp_min(-70.0)
        gain = torch.pow(10.0, (self.target - lufs) / 20.0)
        out = audio * gain[:, None, None]
        peak = out.abs().amax(dim=(1, 2), keepdim=True)
        return out / peak.clamp(min=1.0), lufs, loudness


inputs = [torch.randn(10, 2, 480000) * 0.1 * torch.rand(10, 1, 1)]
