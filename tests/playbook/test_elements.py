"""Elements at known places of what is joined, seen and computed with: found in what they are made of."""

from __future__ import annotations

import math
import random

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import reference, run
from workbench.playbook.generate import generate
from workbench.playbook.graph.elements import Merged, seen_before
from workbench.playbook.graph.rewrites import rewrite
from workbench.playbook.ir.sizes import Sizes

Tensors = dict[str, torch.Tensor]
SIZES = Sizes(("n", "m"))
SHAPES = [(2, 3, 4), (6, 4), (24,), (3, 2, 4), (1, 6, 1, 4), (2, 12), (4, 3, 2), (24, 1), (1, 1, 24)]


@pytest.mark.parametrize("before", SHAPES)
def test_a_place_is_where_a_view_has_it(before: tuple[int, ...]) -> None:
    numbers, rng = torch.arange(24), random.Random(0)
    for after in SHAPES:
        places = tuple(rng.randrange(size) for size in after)
        there = seen_before(SIZES, before, after, places)
        assert there is not None
        assert numbers.view(before)[there] == numbers.view(after)[places]


def test_axes_that_stay_have_no_place() -> None:
    assert seen_before(SIZES, ("n", 6), ("n", 2, 3), (None, 1, 2)) == (None, 5)
    assert seen_before(SIZES, ("n", 6), ("n", 2, 3), (None, None, 2)) == (None, Merged((2, 3), (None, 2)))
    assert seen_before(SIZES, ("n", 6), ("n", 2, 3), (7, None, None)) == (7, None)
    assert seen_before(SIZES, ("n", 6), ("n", 1, 6), (None, 0, 5)) == (None, 5)
    assert seen_before(SIZES, ("n", "m"), ("n*m",), (3,)) is None


def matrix(t: Tensors) -> torch.Tensor:
    """Two rows and columns of what is computed."""
    x = t["x"]
    return torch.stack([x.sin(), x.cos(), x + 1, x * 2], -1).view(-1, 2, 2)


def steps(t: Tensors) -> torch.Tensor:
    state = t["y"]
    for _ in range(12):
        place, speed = state[..., 0], state[..., 1]
        state = state + 0.1 * torch.stack([speed, -place.sin()], -1)
    return state


CALLS: dict[str, Call] = {
    "turned": lambda t: matrix(t).transpose(1, 2)[:, 0, 1],
    "added to": lambda t: (matrix(t) + 0.5 * torch.eye(2))[:, 1, 1],
    "of a row for all": lambda t: (matrix(t) * t["row"])[:, -1, 0],
    "spread": lambda t: matrix(t)[:, :1].expand(-1, 3, -1)[:, 2, 1],
    "on its diagonal": lambda t: matrix(t).diagonal(dim1=1, dim2=2)[:, 1],
    "of its logarithm": lambda t: matrix(t).diagonal(dim1=1, dim2=2).abs().log()[:, 1],
    "above it": lambda t: matrix(t).diagonal(1, 1, -1).select(1, 0),
    "below it": lambda t: matrix(t).diagonal(-1, -2, 2)[:, 0],
    "a part of it": lambda t: matrix(t)[:, 1:][:, 0, 0],
    "chosen": lambda t: torch.where(matrix(t) > 0, matrix(t), 0.1)[:, 0, 0],
    "of two types": lambda t: torch.stack([t["x"].half(), t["x"].half() * 2], -1).float()[:, 1] * 1.001,
    "half a row": lambda t: torch.cat([t["y"] * 2, t["y"].exp()], 1)[:, 2],
    "steps": steps,
}


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_joined(name: str) -> None:
    call = CALLS[name]
    tensors = {"x": torch.randn(70), "y": torch.randn(70, 2), "row": torch.randn(2)}
    problem = problem_of(call, tensors, varying=False)
    names = [node.base_name for node in rewrite(problem).nodes]
    assert "cat" not in names
    assert names.count("record") == (name == "steps")  # the last state is a result
    assert len(names) < 250
    source = generate(problem, ()).kernel.source
    done = run(source, tensors, "checked", races=True)
    assert not done.report.hazards, done.report.hazards[0].message
    (right,) = reference(call, tensors)
    torch.testing.assert_close(done.outputs[0].double(), right.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t["y"][:, 1] * 2,
        lambda t: (t["y"] + 1)[:, 1],
        lambda t: torch.cat([t["y"], t["y"] + 1])[:, 1],
        lambda t: matrix(t).transpose(1, 2)[:, 1],
    ],
)
def test_what_is_no_element_of_a_part_stays(call: Call) -> None:
    problem = problem_of(call, {"x": torch.randn(70), "y": torch.randn(70, 2)}, varying=False)
    assert "select" in [node.base_name for node in rewrite(problem).nodes]


def test_sizes_of_all_tests_are_alike() -> None:
    assert {math.prod(shape) for shape in SHAPES} == {24}
