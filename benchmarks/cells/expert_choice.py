"""Expert-choice routing: each expert takes its best tokens of a sequence; gates, router z-loss, orphans."""

import torch
import torch.nn as nn


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.float()
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight.to(
            x.dtype
        )


class ExpertChoice(nn.Module):
    capacity_factor: float = 2.0

    def __init__(self, dim: int, experts: int):
        super().__init__()
        self.norm = RMSNorm(dim)
        self.experts = experts
        self.expert_bias = nn.Parameter(torch.randn(experts) * 0.1)

    def forward(self, x: torch.Tensor, router_logits: torch.Tensor, padding: torch.Tensor | None = None):
        b, t, c = x.shape
        logits = router_logits.float() + self.expert_bias
        z_loss = torch.logsumexp(logits, dim=-1).pow(2).mean()
        probs = logits.softmax(-1)
        if padding is not None:
            probs = probs.masked_fill(padding[..., None], 0.0)
        k = int(t * self.capacity_factor / self.experts)
        gates, index = probs.transpose(1, 2).topk(k, dim=-1)

        h = self.norm(x)
        gather = index.reshape(b, self.experts * k, 1).expand(-1, -1, c)
        dispatched = h.gather(1, gather).view(b, self.experts, k, c)
        times = torch.zeros(b, t, device=x.device).scatter_add(
            1, index.flatten(1), (gates > 0).float().flatten(1)
        )
        return dispatched, gates, index, times == 0, z_loss


_pad = torch.zeros(4, 2048, dtype=torch.bool)
_pad[2:, 1800:] = True
init_inputs = [1024, 16]
inputs = [torch.randn(4, 2048, 1024).bfloat16(), torch.randn(4, 2048, 16).bfloat16(), _pad]
