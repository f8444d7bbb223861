"""Where the steps of a graph do not fit in memory, the reference itself says how far a kernel may be off."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import problem_of
from workbench.model import Case
from workbench.numerics.bounds import TOO_LARGE, OutputBound, bounds
from workbench.numerics.conditioning import Oracle
from workbench.numerics.inputs import draw
from workbench.numerics.running import Running

Tensors = dict[str, Tensor]
PLACES, WIDTH = 512, 32
SHAPES = {"x": (PLACES, WIDTH), "q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH)}


def attended(t: Tensors) -> Tensor:
    scores = (t["x"] @ t["q"]) @ (t["x"] @ t["k"]).T / WIDTH**0.5
    return F.layer_norm(torch.softmax(scores, dim=1) @ (t["x"] @ t["v"]) + t["x"], (WIDTH,))


def otherwise(t: Tensors) -> Tensor:
    """The same by the library's fused kernel, from products the other way round."""
    q, k, v = ((t[name].T @ t["x"].T).T[None, None] for name in "qkv")
    return F.layer_norm(F.scaled_dot_product_attention(q, k, v)[0, 0] + t["x"], (WIDTH,))


def shorter(values: Tensor) -> Tensor:
    """As tensor cores take float32: ten bits behind the first."""
    return ((values.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def of_shorter(t: Tensors) -> Tensor:
    return otherwise({name: shorter(tensor) for name, tensor in t.items()})


def in_float64(t: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    return (attended({name: tensor.to(torch.float64) for name, tensor in t.items()}),)


def worst(bound: OutputBound, got: Tensor) -> float:
    return float(((got.to(torch.float64) - bound.expected).abs() / bound.allowed).max())


@pytest.mark.parametrize("kind", ["normal", "heavy-tailed"])
def test_another_order_passes_and_shorter_numbers_do_not(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    def too_large(self: Running, *_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8.00 GiB.")

    problem = problem_of(attended, {name: torch.randn(shape) for name, shape in SHAPES.items()})
    case: Case = problem.cases[0]
    tensors = draw(problem, case, kind, 5)  # type: ignore[arg-type]
    monkeypatch.setattr(Running, "outputs", too_large)
    oracle = Oracle(in_float64(tensors), in_float64)
    (bound,) = bounds(problem, case.size_map, tensors, oracle, lambda: (attended(tensors),))
    assert bound.basis.startswith(TOO_LARGE)
    assert worst(bound, otherwise(tensors)) < 0.5
    assert worst(bound, of_shorter(tensors)) > 10.0
