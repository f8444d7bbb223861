"""A router over groups of experts: the best four of eight groups, then eight experts of those."""

import torch


class GroupedRouter(torch.nn.Module):
    def __init__(self, experts=256, groups=8, top_groups=4, top_k=8, scaling=2.5):
        super().__init__()
        self.groups, self.top_groups, self.top_k, self.scaling = groups, top_groups, top_k, scaling
        self.register_buffer("bias", torch.randn(experts) * 0.01)

    @torch.no_grad()
    def forward(self, logits):
        n, e = logits.shape
        scores = logits.float().sigmoid()
        choice = scores + self.bias
        group_scores = choice.view(n, self.groups, -1).topk(2, dim=-1)[0].sum(dim=-1)
        group_idx = torch.topk(group_scores, k=self.top_groups, dim=-1, sorted=False)[1]
        mask = torch.zeros_like(group_scores).scatter_(1, group_idx, 1)
        mask = mask.unsqueeze(-1).expand(n, self.groups, e // self.groups).reshape(n, e)
        choice = choice.masked_fill(~mask.bool(), 0.0)
        idx = torch.topk(choice, k=self.top_k, dim=-1, sorted=False)[1]
        weights = scores.gather(1, idx)
        weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20) * self.scaling
        return idx, weights


inputs = [torch.randn(16384, 256)]
