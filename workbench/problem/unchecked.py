"""Functions of torch that look at values before they compute, without that look.

No export can follow a branch on values. The reference itself still runs torch's function, which raises where
the values are not what it wants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def _gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Half of log(var) + (input - target)^2 / var, with ``var`` at least ``eps``."""
    spread = torch.full_like(input, var) if isinstance(var, float) else var
    if spread.shape != input.shape and spread.shape == input.shape[:-1]:
        spread = spread.unsqueeze(-1)
    spread = spread.clamp(min=eps)
    loss = 0.5 * (spread.log() + (input - target).square() / spread)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


UNCHECKED: Mapping[Callable[..., Any], Callable[..., Any]] = {F.gaussian_nll_loss: _gaussian_nll_loss}
"""What is traced in a function's place."""
