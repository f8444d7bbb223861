"""Vectors that a mask of places hides are not read; what comes out is what it was."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, run
from workbench.model import Vector
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import settled

LAYOUTS: dict[str, Vector] = {
    "block": (("vector_width", "4"), ("block_size", "64"), ("row_cache", "registers")),
    "warp": (("vector_width", "4"), ("threads_per_row", "warp"), ("row_cache", "registers")),
    "shared": (("vector_width", "4"), ("threads_per_row", "warp"), ("row_cache", "shared")),
    "reread": (("vector_width", "2"), ("block_size", "64"), ("single_pass", "on")),
    "ahead": (("vector_width", "4"), ("threads_per_row", "warp"), ("loads_in_flight", "2")),
    "next": (
        ("vector_width", "4"),
        ("row_cache", "registers"),
        ("prefetch", "on"),
        ("persistent_grid", "on"),
    ),
    "cluster": (("vector_width", "4"), ("row_cache", "registers"), ("cluster", "4")),
}


def causal(t: dict[str, Tensor]) -> Tensor:
    later = torch.ones(t["x"].shape[-2:], dtype=torch.bool).triu(1)
    return t["x"].masked_fill(later, float("-inf")).softmax(-1)


def kept(t: dict[str, Tensor]) -> Tensor:
    rows, columns = (torch.arange(size) for size in t["x"].shape[-2:])
    seen = columns[None, :] <= rows[:, None] + 2
    return torch.where(seen, t["x"] * 2, torch.full((), -1e4)).softmax(-1)


def past_hidden(t: dict[str, Tensor]) -> Tensor:
    rows, columns = (torch.arange(size) for size in t["x"].shape[-2:])
    return t["x"].masked_fill(columns[None, :] < rows[:, None], 0.0).sum(-1)


CALLS: dict[str, Call] = {"causal": causal, "kept": kept, "past_hidden": past_hidden}
SHAPES = [(2, 3, 24, 24), (5, 37, 40), (7, 1), (1, 8), (3, 5, 17), (64, 132)]


@pytest.mark.many(11)
@pytest.mark.parametrize(("layout", "name"), crossed(LAYOUTS, CALLS))
def test_masked_rows_of_any_size(name: str, layout: str) -> None:
    torch.manual_seed(0)
    for shape in SHAPES:
        tensors = {"x": torch.randn(shape) * 3}
        problem = problem_of(CALLS[name], tensors, varying=False)
        source = generate(problem, settled(problem, LAYOUTS[layout])).kernel.source
        check(CALLS[name], source, tensors, "checked")


def test_sixteen_bits() -> None:
    tensors = {"x": torch.randn(3, 48, 48, dtype=torch.float16)}
    vector = (("vector_width", "8"), ("threads_per_row", "warp"), ("row_cache", "registers"))
    problem = problem_of(causal, tensors)
    check(causal, generate(problem, settled(problem, vector)).kernel.source, tensors, "checked")


@pytest.mark.many(5)
@pytest.mark.parametrize("name", CALLS)
def test_what_is_hidden_is_not_asked_for(name: str) -> None:
    """Hidden vectors hold NaN or what is no number of this row: nothing of it is seen."""
    x = torch.randn(2, 64, 64)
    problem = problem_of(CALLS[name], {"x": x})
    source = generate(problem, settled(problem, LAYOUTS["block"])).kernel.source
    assert "x_hidden(0) && x_hidden(VEC - 1) ? 0 : col" in source
    hidden = torch.ones(64, 64, dtype=torch.bool)
    hidden = {"causal": hidden.triu(1), "kept": hidden.triu(3), "past_hidden": hidden.tril(-1)}[name]
    nans = {"x": x.masked_fill(hidden, float("nan"))}
    (got,) = run(source, nans).outputs
    torch.testing.assert_close(got, CALLS[name]({"x": x}))


@pytest.mark.slow
def test_what_memory_hides_or_somebody_looks_at_is_read() -> None:
    def by_memory(t: dict[str, Tensor]) -> Tensor:
        return t["x"].masked_fill(t["m"] > 0, float("-inf")).softmax(-1)

    def diagonal(t: dict[str, Tensor]) -> Tensor:
        rows, columns = (torch.arange(size) for size in t["x"].shape[-2:])
        return torch.where(columns[None, :] == rows[:, None], t["x"], 0.0).sum(-1)

    def used_again(t: dict[str, Tensor]) -> Tensor:
        return causal(t) * t["x"]

    def by_column(t: dict[str, Tensor]) -> Tensor:
        return torch.where(torch.arange(t["x"].shape[-1]) < 8, t["x"], 0.0).sum(-1)

    x = torch.randn(16, 32)
    for call in (by_memory, diagonal, used_again, by_column):
        tensors = {"x": x, "m": torch.randn(16, 32)} if call is by_memory else {"x": x}
        problem = problem_of(call, tensors)
        source = generate(problem, settled(problem, LAYOUTS["warp"])).kernel.source
        assert "hidden" not in source
        check(call, source, tensors)
