"""Merge of split-KV attention partials by their log-sum-exps, with empty splits and a sink logit per head."""

import torch


class MergeSplits(torch.nn.Module):
    def __init__(self, heads=32, split_size=512):
        super().__init__()
        self.split_size = split_size
        self.sinks = torch.nn.Parameter(torch.linspace(-1.0, 1.0, heads))

    def forward(self, partial_out, partial_lse, seq_lens):
        splits = partial_out.shape[0]
        used = (seq_lens + self.split_size - 1) // self.split_size
        live = torch.arange(splits, device=seq_lens.device)[:, None] < used[None, :]
        lse = torch.where(live[:, :, None], partial_lse, torch.full_like(partial_lse, float("-inf")))
        lse = torch.where(torch.isnan(lse) | (lse == float("inf")), torch.full_like(lse, float("-inf")), lse)
        sink = self.sinks.view(1, -1)
        max_lse = torch.maximum(lse.max(dim=0).values, sink)
        weights = torch.exp(lse - max_lse)
        denom = weights.sum(dim=0) + torch.exp(sink - max_lse)
        scale = weights / denom
        out = torch.where(live[:, :, None, None], partial_out, 0.0) * scale.unsqueeze(-1)
        out = out.sum(dim=0)
        return out.flatten(1).to(torch.bfloat16), (torch.log(denom) + max_lse).transpose(0, 1).contiguous()


inputs = [
    torch.randn(8, 512, 32, 128),
    torch.randn(8, 512, 32) * 2,
    torch.randint(1, 4097, (512,), dtype=torch.int32),
]
