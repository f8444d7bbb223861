"""Axes whose size is the number of a Python loop's steps are fixed before the export."""

import pytest
import torch
from problem.cells import opened

from workbench.problem.form import Argument, Form
from workbench.problem.unrolled import LONG, unrolled

HALVES = """
def halves(x):
    rows, columns = x.shape
    step = 1
    while step < columns:
        pairs = x.view(rows, columns // (2 * step), 2, step)
        x = torch.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), 2)
        x = x.view(rows, columns)
        step *= 2
    return x

inputs = [torch.randn(32, 64)]
"""


def halves(x):
    step = 1
    while step < x.shape[1]:
        pairs = x.view(x.shape[0], x.shape[1] // (2 * step), 2, step)
        both = pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]
        x = torch.stack(both, 2).view(x.shape[0], x.shape[1])
        step *= 2
    return x


def steps(x):
    state, found = x[:, 0], []
    for t in range(x.shape[1]):
        state = 0.9 * state + 0.1 * x[:, t]
        found.append(state)
    return torch.stack(found, 1)


def gated(x, y):
    state = x[:, 0]
    for t in range(x.shape[1]):
        state = state * y[:, t] + x[:, t]
    return state + (x * y).sum(1)


def doubling(x):
    """As many steps at 33 columns as at 64: the export keeps the range."""
    step = 1
    while step < x.shape[1]:
        x = x + torch.cat((torch.zeros_like(x[:, :step]), x[:, :-step]), 1)
        step *= 2
    return x


def layers(x):
    for _ in range(LONG):
        x = (x * 2).relu()
    return x


def found(function, *shapes):
    names = function.__code__.co_varnames[: len(shapes)]
    inputs = {name: torch.empty(shape) for name, shape in zip(names, shapes, strict=True)}
    arguments = [Argument(name, name, tensor, True) for name, tensor in inputs.items()]
    return unrolled(Form(function, arguments), inputs, {})


@pytest.mark.many(6)
@pytest.mark.parametrize(
    ("function", "shapes", "axes"),
    [
        (halves, [(32, 64)], (("x", 1),)),
        (halves, [(256, 256)], (("x", 1),)),
        (steps, [(32, 64)], (("x", 1),)),
        (gated, [(32, 64), (32, 64)], (("x", 1), ("y", 1))),
        (doubling, [(32, 64)], ()),
        (layers, [(32, 64)], ()),
    ],
    ids=["by halves", "square", "step by step", "two together", "a range of sizes", "layers"],
)
def test_axes_of_loops(function, shapes, axes):
    assert found(function, *shapes) == axes


@pytest.mark.slow
def test_the_export_sees_no_size_of_a_loop():
    problem = opened(HALVES)
    assert problem.tensors[0].dims[1] == 64
    assert isinstance(problem.tensors[0].dims[0], str)
    assert len(problem.graph.nodes) < 6 * 10, "sizes are computed in the graph"


@pytest.mark.slow
def test_what_a_loop_takes_slices_of_beside_its_own_is_tried_at_as_many() -> None:
    """The second tensor may have more steps than the first, and no fewer: no size that is tried is small."""
    problem = opened(
        "def paths(z, w, start):\n"
        "    level = start\n"
        "    for t in range(z.shape[0]):\n"
        "        level = level + 0.1 * level * z[t] + w[t]\n"
        "    return level\n"
        "inputs = [torch.randn(24, 60000), torch.randn(24, 60000), torch.rand(60000)]"
    )
    steps = problem.tensors[1].dims[0]
    assert problem.proofs and all(case.size_map[str(steps)] >= 24 for case in problem.proofs)
