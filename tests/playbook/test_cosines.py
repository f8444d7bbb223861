"""Cosines in one read: norms and products go along together, and are divided once a row."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, run
from workbench.model import Vector
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of, traits_of

LAYOUTS: dict[str, Vector] = {
    "plain": (),
    "block": (("vector_width", "4"), ("block_size", "64")),
    "warp": (("vector_width", "4"), ("threads_per_row", "warp"), ("row_totals", "last")),
    "kept": (("vector_width", "4"), ("row_cache", "registers")),
    "split": (("vector_width", "4"), ("grid_split", "on"), ("split_join", "last"), ("block_size", "64")),
}


def similarity(t: dict[str, Tensor]) -> Tensor:
    return F.cosine_similarity(t["a"], t["b"], dim=-1)


def loss(t: dict[str, Tensor]) -> Tensor:
    return 1 - F.cosine_similarity(t["a"], t["b"], dim=-1).mean()


def normalized(t: dict[str, Tensor]) -> Tensor:
    return (F.normalize(t["a"], dim=1) * F.normalize(t["b"], dim=1)).sum(1)


def down(t: dict[str, Tensor]) -> Tensor:
    return F.cosine_similarity(t["a"], t["b"], dim=0)


CALLS: dict[str, Call] = {"similarity": similarity, "loss": loss, "normalized": normalized, "down": down}


def passes(call: Call, without: frozenset[str]) -> int:
    tensors = {"a": torch.randn(6, 36), "b": torch.randn(6, 36)}
    program = program_of(problem_of(call, tensors), True, without)
    kernel = next(step for step in program.steps if isinstance(step, Kernel))
    return len(passes_of(RowSpace(program.pool, kernel), kernel, single_pass=False))


@pytest.mark.many(5)
@pytest.mark.parametrize("name", CALLS)
def test_two_passes_become_one(name: str) -> None:
    assert passes(CALLS[name], frozenset(["taken_out"])) == 2
    assert passes(CALLS[name], frozenset()) == 1


@pytest.mark.many(5)
@pytest.mark.parametrize(("layout", "name"), crossed(LAYOUTS, CALLS))
def test_rows_of_any_size(name: str, layout: str) -> None:
    torch.manual_seed(0)
    for rows, columns in ((1, 1), (5, 37), (3, 132), (2, 2053 if layout == "split" else 64)):
        tensors = {"a": torch.randn(rows, columns) * 3 + 8, "b": torch.randn(rows, columns) * 1e-3}
        problem = problem_of(CALLS[name], tensors)
        source = generate(problem, settled(problem, LAYOUTS[layout])).kernel.source
        check(CALLS[name], source, tensors, "checked")


@pytest.mark.many(2)
@pytest.mark.parametrize("name", ["similarity", "normalized"])
def test_special_values_come_out_as_they_did(name: str) -> None:
    """Rows with a value that is none, infinite rows, rows of zeros, and as large as squares allow."""
    torch.manual_seed(1)
    values = (0.0, torch.nan, torch.inf, -torch.inf, 1e18, 1e-20)
    pairs = list(itertools.product(values, values))
    a, b = torch.randn(len(pairs) + 2, 9), torch.randn(len(pairs) + 2, 9)
    for row, (one, other) in enumerate(pairs):
        a[row, row % 9], b[row, (row * 5) % 9] = one, other
    a[-1], a[-2] = 0.0, 6e18
    b[-2] = 6e18
    tensors = {"a": a, "b": b}
    problem = problem_of(CALLS[name], tensors)
    for layout in ("plain", "warp"):
        (got,) = run(generate(problem, settled(problem, LAYOUTS[layout])).kernel.source, tensors).outputs
        torch.testing.assert_close(got, CALLS[name](tensors), equal_nan=True, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: (F.normalize(t["a"], dim=1) * t["b"]).sum(1),
        lambda t: (t["a"] / (t["a"].norm(dim=1, keepdim=True) + 1e-6) * F.normalize(t["a"] * 2, dim=1)).amax(
            1
        ),
        lambda t: (t["a"] / t["a"].norm(dim=1, keepdim=True) * F.normalize(t["b"], dim=1)).sum(1),
        lambda t: (
            t["a"] / t["b"].norm(dim=1, keepdim=True).clamp_min(1e-6) * F.normalize(t["b"], dim=1)
        ).sum(1),
    ],
)
def test_what_may_overflow_or_is_no_sum_stays(call: Call) -> None:
    tensors = {"a": torch.randn(6, 36), "b": torch.randn(6, 36)}
    assert "taken_out" not in traits_of(problem_of(call, tensors)).rewrites
