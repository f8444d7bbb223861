"""2:4 sparsity: of each four weights the two largest stay; values and the 2-bit places are packed."""

import torch


def prune_two_of_four(weight, importance):
    out_f, in_f = weight.shape
    groups = weight.view(out_f, in_f // 4, 4)
    score = groups.abs().float() * importance.view(1, in_f // 4, 4).sqrt()
    keep = score.topk(2, dim=-1, sorted=False).indices
    keep = keep.sort(dim=-1).values
    values = torch.gather(groups, -1, keep).reshape(out_f, in_f // 2)
    code = keep[..., 0] | (keep[..., 1] << 2)  # four bits a group
    lo, hi = code.view(out_f, -1, 2).unbind(-1)
    return values, (lo | (hi << 4)).to(torch.uint8)


inputs = [torch.randn(4096, 3072, dtype=torch.float16), torch.rand(3072) + 0.01]
