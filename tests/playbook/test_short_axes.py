"""Reductions of a few elements inside another reduction: written out, and the same numbers."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import Vector
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]


def sides(t: Tensors) -> Tensor:
    return t["x"][:, None, 2:4] - t["y"][None, :, :2]


def area(t: Tensors) -> Tensor:
    return sides(t).prod(-1).amax(1)


def widest(t: Tensors) -> Tensor:
    return sides(t).abs().amax(-1).sum(1)


def narrowest(t: Tensors) -> Tensor:
    return (sides(t).amin(-1, keepdim=True) * 2).sum(0)


def nearest(t: Tensors) -> Tensor:
    return sides(t).square().sum(-1).sqrt().argmin(1)


def length(t: Tensors) -> Tensor:
    """Nothing is reduced behind it: a row of two is a row."""
    return sides(t).square().sum(-1).sqrt()


@pytest.mark.many(11)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("call", "launches"), [(area, 1), (widest, 1), (narrowest, 1), (nearest, 1), (length, 1)]
)
def test_few_elements_are_written_out(call: Call, launches: int, dtype: torch.dtype) -> None:
    tensors = {"x": torch.randn(13, 5).to(dtype), "y": torch.randn(11, 5).to(dtype)}
    problem = problem_of(call, tensors)
    source = generate(problem, (("threads_per_row", "warp"),)).kernel.source
    assert source.count("__global__") == launches
    check(call, source, tensors, "checked")
    off: Vector = (("few_terms", "off"), ("short_axis", "off"), ("threads_per_row", "warp"))
    apart = generate(problem, off).kernel.source
    assert apart.count("__global__") == (1 if call is length else 2)
    check(call, apart, tensors, "checked")
