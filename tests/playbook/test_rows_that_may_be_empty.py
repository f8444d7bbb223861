"""Rows that are empty at the smallest sizes: a block is fitted to them all the same."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench.model import Vector
from workbench.playbook.generate import generate

FITTED: Vector = (("block_size", "fit"), ("threads_per_row", "block"))


def later(t: dict[str, Tensor]) -> Tensor:
    return t["x"][:, 1:].sum()


@pytest.mark.parametrize("vector", [FITTED, (*FITTED, ("grid_split", "on")), (*FITTED, ("cluster", "4"))])
def test_blocks_are_fitted_to_no_columns_too(vector: Vector) -> None:
    problem = problem_of(later, {"x": torch.randn(3, 70)}, cases=({"s0": 3, "s1": 1},))
    source = generate(problem, vector).kernel.source
    for columns in (70, 1):
        check(later, source, {"x": torch.randn(3, columns)}, "checked")


def test_rows_that_are_never_empty_are_fitted_as_they_are() -> None:
    problem = problem_of(lambda t: t["x"].sum(), {"x": torch.randn(3, 70)})
    assert "max(1, " not in generate(problem, FITTED).kernel.source


def mean_of_rows(t: dict[str, Tensor]) -> Tensor:
    return t["x"][:, 1:].logsumexp(-1).mean()


ROWS: tuple[Vector, ...] = (
    (),
    (("row_totals", "told"),),
    (("row_totals", "told"), ("threads_per_row", "warp")),
)


@pytest.mark.many(5)
@pytest.mark.parametrize("vector", [*ROWS, (("row_totals", "last"), ("row_cache", "registers"))])
def test_no_rows_have_a_mean_too(vector: Vector) -> None:
    sizes = {"s0": 3, "s1": 1, "s2": 70}
    problem = problem_of(mean_of_rows, {"x": torch.randn(3, 5, 70)}, cases=(sizes,))
    source = generate(problem, vector).kernel.source
    for length in (5, 1):
        check(mean_of_rows, source, {"x": torch.randn(3, length, 70)}, "checked")
