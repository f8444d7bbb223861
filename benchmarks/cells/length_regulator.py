"""Length regulator of a non-autoregressive speech synthesiser: states repeated by rounded durations."""

import torch


class LengthRegulator(torch.nn.Module):
    def __init__(self, max_frames=800):
        super().__init__()
        self.max_frames = max_frames

    def forward(self, hidden, log_duration, src_lengths, speed):
        _, t, c = hidden.shape
        src_mask = torch.arange(t, device=hidden.device)[None, :] >= src_lengths[:, None]
        duration = torch.clamp(torch.round((torch.exp(log_duration) - 1.0) / speed[:, None]), min=0)
        duration = duration.masked_fill(src_mask, 0.0).long()
        ends = torch.cumsum(duration, dim=1)
        mel_lengths = ends[:, -1].clamp(max=self.max_frames)
        frames = torch.arange(self.max_frames, device=hidden.device)
        token = (frames[None, :, None] >= ends[:, None, :]).sum(-1).clamp(max=t - 1)
        starts = ends - duration
        offset = frames[None, :] - starts.gather(1, token)
        progress = (offset.float() + 0.5) / duration.gather(1, token).clamp(min=1).float()
        mel_mask = frames[None, :] >= mel_lengths[:, None]
        out = hidden.gather(1, token.unsqueeze(-1).expand(-1, -1, c))
        out = out.masked_fill(mel_mask.unsqueeze(-1), 0.0)
        return out.transpose(1, 2).contiguous(), progress.masked_fill(mel_mask, 0.0), mel_mask, mel_lengths


inputs = [
    torch.randn(48, 120, 256),
    torch.rand(48, 120) * 1.6 + 1.0,
    torch.randint(40, 121, (48,)),
    torch.rand(48) * 0.4 + 0.8,
]
