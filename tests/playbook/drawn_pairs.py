"""Random reductions over pairs of rows: any mixture of operands, axes, types and reductions."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from tests.playbook.problems import Call
from workbench.model import Vector

_DTYPES = (torch.float32, torch.float32, torch.float16, torch.bfloat16)
_TILES = (("32", "64"), ("32", "128"), ("32", "256"), ("64", "64"), ("64", "128"), ("64", "256"))


def drawn_pairs(seed: int) -> tuple[Call, dict[str, Tensor], Vector]:
    """A function of pairs, its tensors and the tile it is written with."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    batch = draw.choice([(), (), (2,), (2, 3)])
    down, across, columns = draw.randint(16, 70), draw.randint(16, 70), draw.randint(8, 40)
    last = draw.random() < 0.7  # the columns are the operands' last axis, or the one before
    shapes = [(down, columns), (across, columns)]
    tensors = {
        name: torch.randn((*batch, *(shape if last else shape[::-1]))).to(draw.choice(_DTYPES))
        for name, shape in zip("ab", shapes, strict=True)
    }
    tensors["w"] = torch.rand(columns)
    tensors["s"] = torch.rand((*batch, down, 1))
    mixed, reduced, alone, tail = (draw.randrange(n) for n in (7, 6, 4, 4))

    def call(t: dict[str, Tensor]) -> Tensor:
        a, b = (t[name] if last else t[name].transpose(-1, -2) for name in "ab")
        wide = torch.float64 if t["w"].dtype == torch.float64 else torch.float32
        a, b = _alone(alone, a.to(wide), t), b.to(wide)
        value = _mixed(mixed, a[..., :, None, :], b[..., None, :, :], t["w"])
        return _tail(tail, _reduced(reduced, value), t)

    tile, threads = draw.choice(_TILES)
    used = {"a", "b"} | ({"w"} if mixed == 4 else set()) | ({"s"} if 2 in (alone, tail) else set())
    vector = (
        ("block_size", threads),
        ("pair_tile", tile),
        ("reciprocal", draw.choice(["on", "off"])),
        ("vector_width", draw.choice("14")),
    )
    call_ = call if "w" in used else _with_w(call)
    return call_, {name: tensor for name, tensor in tensors.items() if name in used}, vector


def _with_w(call: Call) -> Call:
    """The same where no weight is given: its type is that of the others."""

    def wrapped(t: dict[str, Tensor]) -> Tensor:
        return call({**t, "w": t["a"].new_zeros((), dtype=_wide(t))})

    return wrapped


def _wide(t: dict[str, Tensor]) -> torch.dtype:
    return torch.float64 if t["a"].dtype == torch.float64 else torch.float32


def _alone(choice: int, a: Tensor, t: dict[str, Tensor]) -> Tensor:
    """What is done to one operand before it meets the other."""
    return [a, a.tanh(), a * t["s"] if "s" in t else a, a.relu() + 0.5][choice]


def _mixed(choice: int, a: Tensor, b: Tensor, w: Tensor) -> Tensor:
    each = (
        lambda: a * b,
        lambda: (a - b).abs(),
        lambda: (a - b) ** 2,
        lambda: torch.maximum(a, b),
        lambda: torch.sigmoid(a + b) * w,
        lambda: torch.where(a > b, a, b * 0.5),
        lambda: a + b,
    )
    return each[choice]()


def _reduced(choice: int, value: Tensor) -> Tensor:
    each = (
        lambda: value.sum(-1),
        lambda: value.mean(-1),
        lambda: value.amax(-1),
        lambda: value.amin(-1),
        lambda: (value > 1).any(-1).to(value.dtype),
        lambda: value.sum(-1) - value.amax(-1),
    )
    return each[choice]()


def _tail(choice: int, value: Tensor, t: dict[str, Tensor]) -> Tensor:
    each = (
        lambda: value,
        lambda: torch.exp(-0.1 * value.abs()),
        lambda: value * t["s"] if "s" in t else value + 1,
        lambda: value.transpose(-1, -2) + 1,
    )
    return each[choice]()
