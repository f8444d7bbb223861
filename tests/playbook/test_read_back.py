"""A row's statistic that an earlier kernel has left in memory is read there, and not made again."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import Vector
from workbench.playbook.expr import Reduction, walk
from workbench.playbook.generate import generate
from workbench.playbook.program import Kernel
from workbench.playbook.techniques import settled
from workbench.playbook.traits import program_of

LAYOUTS: dict[str, Vector] = {
    "plain": (),
    "wide": (("vector_width", "4"), ("block_size", "64")),
    "split": (("vector_width", "4"), ("grid_split", "on"), ("split_join", "last"), ("block_size", "64")),
    "together": (("vector_width", "4"), ("launches", "together")),
    "bundle": (("threads_per_row", "bundle"), ("vector_width", "4"), ("block_size", "256")),
}


def response_norm(t: dict[str, Tensor]) -> Tensor:
    size: Tensor = t["x"].norm(dim=(1, 2), keepdim=True)
    return t["x"] * (size / (size.mean(-1, keepdim=True) + 1e-6)) + t["x"]


def beside_the_largest(t: dict[str, Tensor]) -> Tensor:
    total = t["x"].sum(-1, keepdim=True)
    return t["x"] * total - total.amax(0, keepdim=True)


CALLS: dict[str, tuple[Call, tuple[int, ...]]] = {
    "response_norm": (response_norm, (3, 7, 5, 24)),
    "response_norm_odd": (response_norm, (2, 3, 3, 37)),
    "one_channel": (response_norm, (4, 6, 6, 1)),
    "beside_the_largest": (beside_the_largest, (6, 40)),
    "one_row": (beside_the_largest, (1, 33)),
}


def last_kernel(call: Call, tensors: dict[str, Tensor]) -> Kernel:
    steps = program_of(problem_of(call, tensors), True).steps
    return next(step for step in reversed(steps) if isinstance(step, Kernel))


@pytest.mark.parametrize("name", ["response_norm", "response_norm_odd", "beside_the_largest"])
def test_the_last_kernel_makes_no_statistic_again(name: str) -> None:
    call, shape = CALLS[name]
    kernel = last_kernel(call, {"x": torch.randn(shape)})
    assert [store.level for store in kernel.stores] == ["flat"]
    parts = [part for store in kernel.stores for part in walk(store.value, into_reductions=True)]
    assert not any(isinstance(part, Reduction) for part in parts)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
def test_what_comes_out(name: str, layout: str) -> None:
    torch.manual_seed(0)
    call, shape = CALLS[name]
    tensors = {"x": torch.randn(shape) + 1}
    problem = problem_of(call, tensors)
    source = generate(problem, settled(problem, LAYOUTS[layout])).kernel.source
    check(call, source, tensors, "checked")


def test_a_statistic_that_nobody_waits_for_stays_in_the_kernel_of_its_rows() -> None:
    """A softmax and its rows' maxima: one kernel reads the rows once."""

    def both(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return t["x"].amax(-1), t["x"].softmax(-1)

    def behind(t: dict[str, Tensor]) -> Tensor:
        return t["x"].softmax(-1) - t["y"]

    x = torch.randn(5, 20)
    for call, tensors in ((both, {"x": x}), (behind, {"x": x, "y": torch.randn(5, 20)})):
        kernel = last_kernel(call, tensors)
        assert "full" in [store.level for store in kernel.stores]
        assert (
            len([s for s in program_of(problem_of(call, tensors), True).steps if isinstance(s, Kernel)]) == 1
        )
