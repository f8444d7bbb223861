"""Features of frames of speech: zero crossings, energy, entropy of sub-frame energies."""

import torch


def zero_crossings(wave):
    frames = wave.unfold(-1, 400, 160)
    frames = frames - frames.mean(-1, keepdim=True)
    signs = torch.sign(frames)
    zcr = (signs[..., 1:] - signs[..., :-1]).abs().sum(-1) / 2 / 399
    energy = frames.pow(2).sum(-1)
    sub = frames.reshape(*frames.shape[:-1], 10, 40).pow(2).sum(-1)
    p = sub / (energy.unsqueeze(-1) + 1e-8)
    entropy = -(p * torch.log2(p + 1e-8)).sum(-1)
    return torch.stack([zcr, torch.log(energy + 1e-8), entropy], dim=1)


inputs = [torch.randn(128, 160240)]
