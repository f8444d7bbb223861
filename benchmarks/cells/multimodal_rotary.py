"""Multimodal rotary embedding (time, height, width sections) of a vision-language model."""

import torch


class MultimodalRotary(torch.nn.Module):
    def __init__(self, head_dim=128, base=1000000.0, sections=(16, 24, 24)):
        super().__init__()
        self.sections = list(sections) * 2
        inv_freq = 1.0 / (base ** (torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    @staticmethod
    def rotate_half(x):
        x1 = x[..., : x.shape[-1] // 2]
        x2 = x[..., x.shape[-1] // 2 :]
        return torch.cat((-x2, x1), dim=-1)

    def forward(self, q, k, position_ids):
        b, s, _ = q.shape
        q = q.view(b, s, -1, 128).transpose(1, 2)
        k = k.view(b, s, -1, 128).transpose(1, 2)
        inv = self.inv_freq[None, None, :, None].float().expand(3, b, -1, 1)
        pos = position_ids[:, :, None, :].float()
        freqs = (inv * pos).transpose(2, 3)
        emb = torch.cat((freqs, freqs), dim=-1)
        cos, sin = emb.cos().to(q.dtype), emb.sin().to(q.dtype)
        cos = torch.cat([m[i % 3] for i, m in enumerate(cos.split(self.sections, dim=-1))], dim=-1).unsqueeze(
            1
        )
        sin = torch.cat([m[i % 3] for i, m in enumerate(sin.split(self.sections, dim=-1))], dim=-1).unsqueeze(
            1
        )
        q_embed = (q * cos) + (self.rotate_half(q) * sin)
        k_embed = (k * cos) + (self.rotate_half(k) * sin)
        return q_embed, k_embed.contiguous()


inputs = [
    torch.randn(2, 4096, 2048).to(torch.bfloat16),
    torch.randn(2, 4096, 512).to(torch.bfloat16),
    torch.randint(0, 4096, (3, 2, 4096)),
]
