"""Concatenations of computed pieces: each is stored where it belongs, all of them by one kernel."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]


def long_planes(t: Tensors) -> Tensor:
    """Pieces that share more than a branch can spell."""
    a, b, c = t["x"].unbind(1)
    for _ in range(6):
        a, b, c = torch.sin(a + b * c), torch.cos(b - a * c), torch.tanh(a * b + c)
    return torch.stack((a * b, b * c, a - c), 1)


def with_zeros(t: Tensors) -> Tensor:
    """Nine numbers of a row, some of which nothing is read for, and which are read again."""
    x, y, z = (t["x"] / (1 + t["x"].square().sum(1, keepdim=True))).unbind(1)
    zero = torch.zeros_like(x)
    matrix = torch.stack((zero, -z, y, z, zero, -x, -y, x, zero), -1)
    return matrix.cumsum(-1)


@pytest.mark.many(5)
@pytest.mark.parametrize("sizes", [(5, 129), (1, 1)])
@pytest.mark.parametrize(("call", "kernels"), [(long_planes, 1), (with_zeros, 2)])
def test_pieces_are_stored_by_one_kernel(call: Call, kernels: int, sizes: tuple[int, int]) -> None:
    tensors = {"x": torch.randn(sizes[0], 3, sizes[1])}
    source = generate(problem_of(call, tensors), ()).kernel.source
    assert source.count("__global__") == kernels
    check(call, source, tensors, "checked")
