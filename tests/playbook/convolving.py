"""Functions around a convolution, of one to three sides."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call


def ordinary(**settings: Any) -> Call:
    def call(t: dict[str, Tensor]) -> Tensor:
        convolve = (F.conv1d, F.conv2d, F.conv3d)[t["x"].ndim - 3]
        made = convolve(t["x"], t["w"], t.get("b"), **settings)
        return torch.relu(made) * 0.5

    return call


def transposed(**settings: Any) -> Call:
    def call(t: dict[str, Tensor]) -> Tensor:
        made = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[t["x"].ndim - 3]
        return torch.tanh(made(t["x"], t["w"], t.get("b"), **settings))

    return call


def two_results(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """A residual, a value a channel, and the places themselves behind a convolution."""
    made = F.conv2d(t["x"], t["w"], padding=1) + t["b"][:, None, None]
    along = torch.arange(made.shape[-1], device=made.device)
    return made + t["r"], torch.where(along % 2 == 0, made, -made)


def shared(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Results that are wanted as they are, too."""
    made = F.conv2d(t["x"], t["w"])
    return made, torch.sigmoid(made)
