"""Of rows that are put at one place any may stay: torch promises none, and on a GPU each run has another."""

from __future__ import annotations

import pytest
from first_case import prepared
from torch import Tensor

from workbench.numerics.operators import leaves_open
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem
from workbench.referee.gpu_expectation import Expectations, Prepared

CACHE = """
import torch

def written(cache: torch.Tensor, rows: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    found = cache.clone()
    found[slots] = rows.to(cache.dtype)
    return found * 2

inputs = [torch.randn(24, 2, 8, dtype=torch.bfloat16), torch.randn(12, 2, 8), torch.randperm(24)[:12]]
"""


@pytest.fixture(scope="module")
def known() -> tuple[Expectations, Prepared]:
    expectations, made = prepared(CACHE)
    assert len(made.tensors["slots"].unique()) < 12
    return expectations, made


def written(known: Prepared, order: list[int]) -> Tensor:
    """The rows put one after the other in this order: the last stays."""
    found = known.tensors["cache"].clone()
    for row in order:
        found[known.tensors["slots"][row]] = known.tensors["rows"][row].to(found.dtype)
    return found * 2


def ratio(known: tuple[Expectations, Prepared], result: Tensor) -> float:
    (found,) = known[0].differences(known[1], (result,))
    return found.max_ratio


def test_any_of_them_may_stay(known: tuple[Expectations, Prepared]) -> None:
    for order in (list(range(12)), list(range(11, -1, -1)), [5, 3, 1, 0, 2, 4, 6, 11, 10, 9, 8, 7]):
        assert ratio(known, written(known[1], order)) <= 1


def test_but_one_of_them_must(known: tuple[Expectations, Prepared]) -> None:
    assert ratio(known, known[1].tensors["cache"] * 2) > 1
    slots = known[1].tensors["slots"]
    alone = [row for row in range(12) if int((slots == slots[row]).sum()) == 1]
    assert alone
    for row in alone:
        assert ratio(known, written(known[1], [one for one in range(12) if one != row])) > 1


def test_elsewhere_nothing_is_given_away(known: tuple[Expectations, Prepared]) -> None:
    """A slot that one row is put at, or none, must be exact."""
    right = written(known[1], list(range(12)))
    slots = known[1].tensors["slots"]
    for slot in range(24):
        if int((slots == slot).sum()) < 2:
            wrong = right.clone()
            wrong[slot, 1, 3] += 0.1 * wrong[slot, 1, 3].abs() + 0.1
            assert ratio(known, wrong) > 1


@pytest.mark.parametrize(
    ("line", "is_open"),
    [
        ("x.index_put((i,), v)", True),
        ("x.index_copy(0, i, v)", True),
        ("x.scatter(0, i[:, None].expand(-1, 8), v)", True),
        ("x.index_put((i,), v, accumulate=True)", False),
        ("x.index_add(0, i, v)", False),
        ("x[i] + v", False),
        ("torch.searchsorted(x[:, 0].abs().cumsum(0), v) + i.sum()", True),
        ("torch.bucketize(v, x[:, 0].contiguous()) + i.sum()", False),
    ],
)
def test_what_torch_leaves_open_is_seen_in_the_graph(line: str, is_open: bool) -> None:
    head = "import torch\n\ndef put(x, v, i):\n    return "
    inputs = "[torch.randn(9, 8), torch.randn(5, 8), torch.arange(5)]"
    problem = open_problem(read_cell(f"{head}{line}\n\ninputs = {inputs}\n"))
    assert leaves_open(problem.graph) is is_open
