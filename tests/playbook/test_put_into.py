"""Tensors of which a part is replaced are one kernel: slices with a step, masks, a few places of a row."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import Vector
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]


def checkerboard(t: Tensors) -> Tensor:
    y = t["x"].clone()
    y[::2, ::2] = 0
    y[1::3, 1:8:2] *= -1
    return y


def masked(t: Tensors) -> Tensor:
    y = t["x"].clone()
    y[y < 0] = 0.1
    y[y.sum(1) > 3] = 2
    return y


def two_experts(t: Tensors) -> Tensor:
    """A place that is named twice has what was put there last."""
    return torch.zeros_like(t["x"]).scatter(1, t["i"][:, :2], t["w"]) + t["x"].scatter(1, t["i"][:, :1], 3.0)


def added(t: Tensors) -> Tensor:
    return t["x"].scatter_add(0, t["i"][:2], t["w"].exp())


def indices(high: int, *shape: int) -> Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(3))


CASES: dict[str, tuple[Call, Callable[[], Tensors]]] = {
    "steps of one's own": (
        lambda t: t["x"].as_strided((2, 10, 5), (14, 1, 1), 2).mean(-1),
        lambda: {"x": torch.randn(2, 14 + 2)},
    ),
    "a slice": (
        lambda t: t["x"].slice_scatter(t["y"] * 2, 1, 2, 5) + 1,
        lambda: {"x": torch.randn(4, 9), "y": torch.randn(4, 3)},
    ),
    "slices with a step": (checkerboard, lambda: {"x": torch.randn(7, 9)}),
    "numbers under a mask": (masked, lambda: {"x": torch.randn(7, 9)}),
    "two places a row": (
        two_experts,
        lambda: {"x": torch.randn(6, 9), "i": indices(3, 6, 4), "w": torch.randn(6, 2)},
    ),
    "sums into places": (
        added,
        lambda: {"x": torch.randn(6, 9), "i": indices(6, 4, 7), "w": torch.randn(4, 9)},
    ),
    "maxima over blocks": (
        lambda t: F.adaptive_max_pool2d(t["x"], (2, 1)) * 2,
        lambda: {"x": torch.randn(2, 3, 4, 5)},
    ),
}
VECTORS: tuple[Vector, ...] = ((), (("fusion", "none"),), (("vector_width", "2"),))


@pytest.mark.many(11)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("vector", VECTORS, ids=["plain", "apart", "vectors"])
def test_no_library_is_called(name: str, vector: Vector) -> None:
    call, tensors = CASES[name]
    torch.manual_seed(0)
    given = tensors()
    varying = name not in ("maxima over blocks", "a slice", "steps of one's own")
    source = generate(problem_of(call, given, "op", varying), vector).kernel.source
    assert "library(" not in source
    check(call, source, given, "checked")
