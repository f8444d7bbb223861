"""Bags of embeddings that are all as long: rows of a table, summed, averaged, or the largest of each.

Torch has one operation for bags of any lengths, which takes where each begins. Of a matrix of places it makes
these beginnings itself; written out, the kernel that reads the rows adds them up.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """``F.embedding_bag`` of places (B, N) in a table (rows, D): (B, D). Others are left to torch.

    Rows of ``padding_idx`` do not count; a bag of nothing else is zeros.
    """
    weighed = per_sample_weights is not None
    alike = input.ndim == 2 and not input.is_nested and offsets is None and max_norm is None
    if not alike or input.is_floating_point() or (weighed and mode != "sum") or mode not in _MODES:
        return F.embedding_bag(
            input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            per_sample_weights, include_last_offset, padding_idx,
        )  # fmt: skip
    rows = F.embedding(input, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if padding_idx is None:
        return rows.sum(1) if mode == "sum" else rows.mean(1) if mode == "mean" else rows.amax(1)
    counts = (input != padding_idx % weight.shape[0]).unsqueeze(-1)
    if mode == "max":
        return torch.where(counts.any(1), torch.where(counts, rows, -torch.inf).amax(1), 0.0)
    total = torch.where(counts, rows, 0.0).sum(1)
    return total if mode == "sum" else total / counts.sum(1).clamp(min=1)


_MODES = ("sum", "mean", "max")
