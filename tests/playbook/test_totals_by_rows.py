"""Totals beside reductions of rows: one kernel reads what both want, and the numbers are the same."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import applying

Tensors = dict[str, Tensor]
Results = Callable[[Tensors], tuple[Tensor, ...]]
VECTOR = (("threads_per_row", "warp"), ("vector_width", "4"))


def loss(t: Tensors) -> tuple[Tensor, ...]:
    """A mean over all tokens that count, and of each sequence its length and its own mean."""
    off, counts = (t["x"] - t["y"]).square(), t["m"].float()
    total = (off * counts).sum() / counts.sum().clamp(min=1)
    return total, (off * counts).sum(1) / counts.sum(1).clamp(min=1), t["m"].sum(1)


def columns(t: Tensors) -> tuple[Tensor, ...]:
    return t["x"].mean(0), t["x"].square().mean()


def extremes(t: Tensors) -> tuple[Tensor, ...]:
    apart = t["x"] - t["y"]
    return apart.amax((0, 1), keepdim=True), apart.amin(), apart.abs().sum(1)


def softmax(t: Tensors) -> tuple[Tensor, ...]:
    """Has rows already: what is summed is made of them."""
    share = t["x"].softmax(1)
    return (share * t["y"]).sum(), t["x"].amax(1)


def others(t: Tensors) -> tuple[Tensor, ...]:
    return t["x"].sum(), t["y"].sum(1)


def tensors(dtype: torch.dtype = torch.float32) -> Tensors:
    x, y = torch.randn(2, 21, 72).to(dtype)
    return {"x": x, "y": y, "m": (torch.rand(21, 72) < 0.7).int()}


@pytest.mark.many(2)
@pytest.mark.parametrize("call", [loss, columns, extremes])
def test_totals_go_with_the_rows(call: Results) -> None:
    given = tensors()
    problem = problem_of(call, given)
    assert "totals_by_rows" in applying(problem)
    for use in ("on", "off"):
        source = generate(problem, (*VECTOR, ("totals_by_rows", use))).kernel.source
        check(call, source, given, "checked")


def test_one_kernel_reads_the_elements() -> None:
    def kernels(use: str) -> int:
        source = generate(problem_of(loss, tensors()), (*VECTOR, ("totals_by_rows", use))).kernel.source
        return sum("const float* __restrict__ y" in text for text in source.split("__global__")[1:])

    assert (kernels("on"), kernels("off")) == (1, 2)


@pytest.mark.parametrize("call", [softmax, others])
def test_rows_of_its_own_and_other_tensors_are_no_reason(call: Results) -> None:
    assert "totals_by_rows" not in applying(problem_of(call, tensors()))


def test_a_rounded_sum_is_added_up_at_once() -> None:
    """Torch adds 16-bit numbers up in 32 bits; a row's sum would be rounded on the way."""

    def plain(t: Tensors) -> tuple[Tensor, ...]:
        return t["x"].sum(), t["x"].sum(1)

    given = tensors(torch.bfloat16)
    problem = problem_of(plain, given)
    assert {node.outs[0].dtype for node in problem.graph.nodes} == {"bf16"}
    assert "totals_by_rows" not in applying(problem)
