from __future__ import annotations

import pytest
import torch
from softmax_problem import PROBLEM, case

from workbench.model import Case, Problem
from workbench.problem.reference import Reference
from workbench.referee.slicing import separable, slices


def with_reference(body: str, **changes: object) -> Problem:
    source = f"import torch\n\ndef softmax(x):\n    return {body}\n"
    return PROBLEM.model_copy(update={"source": source, **changes})


@pytest.mark.parametrize(
    ("body", "symbol"),
    [
        ("torch.softmax(x, dim=1)", "s0"),
        ("torch.softmax(x, dim=0)", ""),
        ("torch.cumsum(x, dim=0)", ""),
        ("x / x.shape[0]", ""),
        ("x - x.mean()", ""),
        ("torch.relu(x) * 2", "s0"),
    ],
)
def test_only_what_falls_apart_is_cut(body: str, symbol: str) -> None:
    problem = with_reference(body)
    assert separable(problem, Reference(problem).oracle) == symbol


def test_an_output_without_the_axis_is_not_cut() -> None:
    outputs = (PROBLEM.outputs[0].model_copy(update={"dims": ("s1",)}),)
    problem = with_reference("x.sum(dim=0)", outputs=outputs)
    assert separable(problem, Reference(problem).oracle) == ""


def test_a_size_derived_from_the_axis_is_not_cut() -> None:
    outputs = (PROBLEM.outputs[0].model_copy(update={"dims": ("s0", "s0*s1")}),)
    problem = with_reference("x.repeat(1, x.shape[0])", outputs=outputs)
    assert separable(problem, Reference(problem).oracle) == ""


@pytest.mark.parametrize(("most", "parts"), [(70, 4), (10**9, 1), (1, 40)])
def test_slices_cover_every_row_once(most: int, parts: int) -> None:
    wide: Case = case(40, 7)
    cut = slices(PROBLEM, wide, "s0", most)
    seen = [row for part in cut for row in range(part.start, part.stop)]
    assert seen == list(range(40)) and len(list(cut)) == parts
    x = torch.arange(280.0).reshape(40, 7)
    first = next(iter(cut))
    assert torch.equal(cut.of({"x": x}, first)["x"], x[first])
    assert cut.sizes(wide, first) == {"s0": first.stop, "s1": 7}
