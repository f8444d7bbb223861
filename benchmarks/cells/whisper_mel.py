"""A mel spectrogram's logarithm, not below eight decades under its loudest value."""

import torch


def whisper_mel(mel):
    log_spec = torch.clamp(mel, min=1e-10).log10()
    loudest = log_spec.max(dim=2, keepdim=True)[0].max(dim=1, keepdim=True)[0]
    log_spec = torch.maximum(log_spec, loudest - 8.0)
    return (log_spec + 4.0) / 4.0


inputs = [torch.rand(64, 128, 3000) ** 8]
