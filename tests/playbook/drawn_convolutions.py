"""Random convolutions: any mixture of channels, groups, windows, strides, paddings and tails."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call
from workbench.model import Vector

_TILES = ("8x8", "8x4", "4x8", "16x4")
_THREADS = ("128", "64", "256")


def drawn_convolution(seed: int) -> tuple[Call, dict[str, Tensor], Vector]:
    """A convolution with something behind it, its tensors and the tile it is written with."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    sides = draw.choice((1, 2, 2, 3))
    turned = draw.random() < 0.5
    groups = draw.choice((1, 1, 1, 2, 3))
    reads, makes = groups * draw.randint(2, 9 if sides < 3 else 5), groups * draw.randint(5, 20)
    window = [draw.randint(1, 4 if sides < 3 else 3) for _ in range(sides)]
    strides = [draw.randint(1, 3) for _ in range(sides)]
    paddings = [draw.randint(0, count // 2 + 1) for count in window]
    dilation = [draw.randint(1, 3) for _ in range(sides)]
    spread = [apart * (count - 1) + 1 for apart, count in zip(dilation, window, strict=True)]
    settings: dict[str, Any] = {"stride": tuple(strides), "dilation": tuple(dilation), "groups": groups}
    if turned:
        paddings = [min(padding, count - 1) for padding, count in zip(paddings, spread, strict=True)]
        settings["output_padding"] = tuple(
            draw.randrange(max(pair)) for pair in zip(strides, dilation, strict=True)
        )
    settings["padding"] = tuple(paddings)
    plane = [count + draw.randint(1, (200, 20, 9)[sides - 1]) for count in spread]
    shape = (reads, makes // groups) if turned else (makes, reads // groups)
    tensors = {
        "x": torch.randn(draw.randint(1, 2), reads, *plane),
        "w": torch.randn(*shape, *window),
        "b": torch.randn(makes),
    }
    tail, biased = draw.randrange(4), draw.random() < 0.7
    operation = getattr(F, f"conv{'_transpose' if turned else ''}{sides}d")

    def call(t: dict[str, Tensor]) -> Tensor:
        made = operation(t["x"], t["w"], t["b"] if biased else None, **settings)
        along = t["b"].reshape(-1, *[1] * sides)
        match tail:
            case 0:
                return made
            case 1:
                return torch.relu(made * along)
            case 2:
                return torch.where(made > along, made, 0.1 * made)
        return made.transpose(0, 1) + 1.0

    used = tensors if biased or tail in (1, 2) else {name: tensors[name] for name in "xw"}
    most = 128 // math.prod(strides[-2:]) if turned else 16  # sums of a thread that there is room for
    tiles = [tile for tile in _TILES if int(tile.partition("x")[0]) <= most]
    vector = (("block_size", draw.choice(_THREADS)), ("convolution", draw.choice(tiles)))
    return call if len(used) > 2 else _with_b(call), used, vector


def _with_b(call: Call) -> Call:
    """The same where no bias is given: nothing is done with it."""
    return lambda t: call({**t, "b": t["w"].new_zeros(1)})
