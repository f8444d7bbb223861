"""Bounds of small cases are made on the processor, where that is the same function."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

from workbench.model import Problem
from workbench.numerics.bounds import bounds
from workbench.numerics.conditioning import Oracle
from workbench.numerics.inputs import draw
from workbench.plan.steps import Plan
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem
from workbench.problem.reference import Reference
from workbench.referee.gpu_expectation import Expectations
from workbench.referee.matrix import PlannedCheck
from workbench.referee.nearby import SMALL, is_small, moved, nearby
from workbench.referee.protocol import Trial

CELL = """
import torch

def scores(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * weight, dim=1).sum(0)

inputs = [torch.randn({rows}, 64), torch.randn(64)]
"""
ASKS_WHERE = """
import torch

def doubled(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * (2.0 if x.is_cuda else 1.0)

inputs = [torch.randn(8, 64)]
"""


@cache
def known() -> Problem:
    return open_problem(read_cell(CELL.format(rows=8)))


def opened() -> tuple[Problem, Reference, dict[str, Tensor]]:
    problem = known()
    return problem, Reference(problem), draw(problem, problem.cases[0], "normal", 3)


def test_what_is_moved_has_the_bounds_it_had() -> None:
    problem, reference, tensors = opened()
    native, expected = reference.call(tensors), reference.oracle(tensors)
    near = moved(reference, tensors, native, expected)
    assert near is not None
    sizes = problem.cases[0].size_map
    (here,) = bounds(problem, sizes, near.tensors, near.oracle, lambda: near.native)
    (there,) = bounds(problem, sizes, tensors, Oracle(expected, reference.oracle), lambda: native)
    assert here.basis == there.basis
    torch.testing.assert_close(here.allowed, there.allowed)
    torch.testing.assert_close(here.expected, there.expected)


@pytest.mark.parametrize("change", ["number", "nan", "infinity", "shape", "type", "count"])
def test_another_function_elsewhere_stays_where_it_is(change: str) -> None:
    _, reference, tensors = opened()
    native, (expected,) = reference.call(tensors), reference.oracle(tensors)
    others = {
        "number": (expected * (1 + 1e-7),),
        "nan": (torch.where(expected == expected.max(), torch.nan, expected),),
        "infinity": (torch.where(expected == expected.max(), torch.inf, expected),),
        "shape": (expected[None],),
        "type": (expected.float(),),
        "count": (expected, expected),
    }
    assert moved(reference, tensors, native, others[change]) is None
    assert moved(reference, tensors, native, (expected * (1 + 1e-12),)) is not None


def test_the_other_of_two_equal_elements_stays_where_it_is() -> None:
    problem = open_problem(
        read_cell("import torch\ndef top(x):\n    return x.argmax(1)\n\ninputs = [torch.randn(4, 64)]\n")
    )
    reference, tensors = Reference(problem), draw(problem, problem.cases[0], "normal", 3)
    (index,) = reference.oracle(tensors)
    assert moved(reference, tensors, (index,), (index,)) is not None
    assert moved(reference, tensors, (index,), (index + 1,)) is None


def test_infinities_and_nan_in_both_places_are_alike() -> None:
    _, reference, tensors = opened()
    tensors["x"][0, 0], tensors["x"][1, 1] = torch.inf, torch.nan
    native, expected = reference.call(tensors), reference.oracle(tensors)
    assert bool(expected[0].isnan().any())
    assert moved(reference, tensors, native, expected) is not None


def test_small_are_few_elements_a_node_and_nothing_moves_that_is_there() -> None:
    problem, reference, tensors = opened()
    nodes, sizes = len(problem.graph.nodes), problem.cases[0].size_map
    native, expected = reference.call(tensors), reference.oracle(tensors)
    assert is_small(problem, sizes) and nearby(problem, reference, sizes, tensors, native, expected) is None
    wide = open_problem(read_cell(CELL.format(rows=SMALL * nodes // 64)))
    assert not is_small(wide, wide.cases[0].size_map)


@pytest.mark.gpu
@pytest.mark.parametrize(("cell", "place"), [(CELL.format(rows=8), "cpu"), (ASKS_WHERE, "cuda")])
def test_bounds_of_a_card_lie_where_the_reference_is_the_same(cell: str, place: str) -> None:
    problem = open_problem(read_cell(cell))
    plan = Plan(arguments=tuple(problem.metas(problem.cases[0]).items()), steps=(), outputs=())
    expectations = Expectations(problem, "cuda")
    planned = PlannedCheck(Trial(case=problem.cases[0], plan=plan), "normal", 5, "plain")
    prepared = expectations.prepare(planned)
    assert prepared is not None and prepared.bounds[0].expected.device.type == place
    outputs = expectations.reference.call(prepared.tensors)
    (right,) = expectations.differences(prepared, outputs)
    (wrong,) = expectations.differences(prepared, tuple(one + 0.1 for one in outputs))
    assert right.max_ratio <= 1 < wrong.max_ratio
    assert expectations.prepare(planned) is prepared
