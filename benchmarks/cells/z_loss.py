"""Cross entropy of a language model with the z-loss, over tokens that count."""

import torch


class ZLoss(torch.nn.Module):
    def __init__(self, z_weight=1e-4):
        super().__init__()
        self.z_weight = z_weight

    def forward(self, logits, labels, weight):
        logits = logits.float()
        lse = torch.logsumexp(logits, dim=-1)
        picked = logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        nll = lse - picked
        z = self.z_weight * lse.pow(2)
        return ((nll + z) * weight).sum() / weight.sum()


inputs = [
    torch.randn(2048, 32000, dtype=torch.bfloat16),
    torch.randint(0, 32000, (2048,)),
    torch.rand(2048).lt(0.9).float(),
]
