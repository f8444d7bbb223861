"""Rows whose results go to memory in another order: each is normalised and put to its place as a whole."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import Vector
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of

LAYOUTS: dict[str, Vector] = {
    "plain": (),
    "eight": (("threads_per_row", "eight"), ("vector_width", "4"), ("row_cache", "registers")),
    "warp": (("threads_per_row", "warp"), ("vector_width", "4"), ("rows_a_warp", "2")),
    "shared": (("row_cache", "shared"), ("vector_width", "2"), ("block_size", "64")),
    "ahead": (
        ("row_cache", "registers"),
        ("vector_width", "4"),
        ("prefetch", "on"),
        ("persistent_grid", "on"),
    ),
}


@dataclass(frozen=True)
class Norm:
    """What is normalised, over the last axes of x, and how its result is seen."""

    call: Call
    shape: tuple[int, ...]
    others: tuple[tuple[str, tuple[int, ...]], ...] = ()
    dtype: torch.dtype = torch.float32

    def tensors(self) -> dict[str, Tensor]:
        torch.manual_seed(0)
        shapes = {"x": self.shape, **dict(self.others)}
        return {name: torch.randn(shape).to(self.dtype) for name, shape in shapes.items()}


def heads_first(t: dict[str, Tensor]) -> Tensor:
    scale = torch.rsqrt(t["x"].float().pow(2).mean(-1, keepdim=True) + 1e-6)
    return ((t["x"].float() * scale).to(t["x"].dtype) * t["w"]).transpose(1, 2).contiguous()


def softmax_in_three(t: dict[str, Tensor]) -> Tensor:
    return t["x"].softmax(-1).permute(2, 0, 1, 3).contiguous()


def added_there(t: dict[str, Tensor]) -> Tensor:
    return F.layer_norm(t["x"], t["x"].shape[-1:]).transpose(0, 1).contiguous() + t["y"]


def two_axes_a_row(t: dict[str, Tensor]) -> Tensor:
    return F.layer_norm(t["x"], t["x"].shape[-2:]).transpose(0, 1).contiguous()


def both(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    found = t["x"].softmax(-1)
    return found, found.transpose(0, 1).contiguous()


CALLS: dict[str, Norm] = {
    "heads_first": Norm(heads_first, (2, 5, 3, 128), (("w", (128,)),)),
    "heads_first_half": Norm(heads_first, (2, 7, 4, 64), (("w", (64,)),), torch.float16),
    "heads_first_bfloat16": Norm(heads_first, (1, 3, 11, 40), (("w", (40,)),), torch.bfloat16),
    "odd": Norm(heads_first, (3, 2, 5, 37), (("w", (37,)),)),
    "one_head": Norm(heads_first, (2, 4, 1, 12), (("w", (12,)),)),
    "softmax_in_three": Norm(softmax_in_three, (2, 3, 5, 16)),
    "added_there": Norm(added_there, (6, 5, 24), (("y", (5, 6, 24)),)),
    "two_axes_a_row": Norm(two_axes_a_row, (4, 3, 6, 8)),
}


def kernels(call: Call, tensors: dict[str, Tensor]) -> list[Kernel]:
    return [step for step in program_of(problem_of(call, tensors), True).steps if isinstance(step, Kernel)]


@pytest.mark.many(6)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("varying", [True, False])
def test_one_kernel_reads_and_writes_each_row_once(name: str, varying: bool) -> None:
    norm = CALLS[name]
    tensors = norm.tensors()
    problem = problem_of(norm.call, tensors, varying=varying)
    (kernel,) = [step for step in program_of(problem, True).steps if isinstance(step, Kernel)]
    assert [store.level for store in kernel.stores] == ["full"]


@pytest.mark.many(6)
@pytest.mark.parametrize(("layout", "name"), crossed(LAYOUTS, CALLS))
def test_rows_come_out_where_they_belong(name: str, layout: str) -> None:
    norm = CALLS[name]
    tensors = norm.tensors()
    problem = problem_of(norm.call, tensors)
    source = generate(problem, settled(problem, LAYOUTS[layout])).kernel.source
    check(norm.call, source, tensors, "checked")


def test_a_result_in_both_orders() -> None:
    tensors = {"x": torch.randn(5, 7, 20)}
    for layout in LAYOUTS.values():
        problem = problem_of(both, tensors)
        check(both, generate(problem, settled(problem, layout)).kernel.source, tensors, "checked")


def test_rows_that_would_be_written_in_pieces_stay_apart() -> None:
    """Neighbours of a row that are none in the result: a kernel of its own turns them, or tiles do."""

    def turned(t: dict[str, Tensor]) -> Tensor:
        return t["x"].softmax(-1).permute(1, 2, 0).contiguous()

    tensors = {"x": torch.randn(5, 6, 20)}
    assert len(kernels(turned, tensors)) > 1
    check(turned, generate(problem_of(turned, tensors), ()).kernel.source, tensors, "checked")


def test_a_row_put_to_another_rows_place_is_caught() -> None:
    norm = CALLS["heads_first"]
    tensors = norm.tensors()
    source = generate(problem_of(norm.call, tensors, varying=False), ()).kernel.source
    good = next(line for line in source.splitlines() if " out_row = " in line)
    bad = good.split("=")[0] + "= out + size_t(row) * 128;"
    with pytest.raises(AssertionError):
        check(norm.call, source.replace(good, bad), tensors)
