"""Where integers end that say places: what the graph tells, and what is drawn by it."""

import pytest
import torch
from problem.cells import opened

from workbench.model import Dim, Problem
from workbench.numerics.inputs import draw
from workbench.playbook.generate import generate
from workbench.problem.index_bounds import counted_ends, indexed_sizes

EDGES = """def edges(source, target, left, right):
    nodes, heads = left.shape
    scores = F.leaky_relu(left[source] + right[target], 0.2)
    index = target.unsqueeze(-1).expand(-1, heads)
    top = torch.full((nodes, heads), float("-inf")).scatter_reduce(0, index, scores, reduce="amax")
    spread = torch.exp(scores - top[target])
    total = torch.zeros(nodes, heads).index_add(0, target, spread)
    return spread / total[target]
inputs = [torch.randint(0, 50, (80,)), torch.randint(0, 50, (80,)), torch.randn(50, 8), torch.randn(50, 8)]
"""


def end(problem: Problem, name: str) -> Dim | tuple[Dim, ...] | None:
    return next(spec.sampler.high_dim for spec in problem.tensors if spec.name == name)


def test_an_index_into_several_tables_ends_with_the_shortest() -> None:
    problem = opened(EDGES)
    left, right = (spec.dims[0] for spec in problem.tensors if spec.role == "input" and len(spec.dims) == 2)
    found = indexed_sizes(problem)
    assert set(found["target_"]) == {left, right} and found["source"] == (left,) and left != right
    both = end(problem, "target_")
    assert isinstance(both, tuple) and set(both) == {left, right}
    assert any(case.size_map[str(left)] != case.size_map[str(right)] for case in problem.proofs)
    for case in problem.proofs:
        rows, others = case.size_map[str(left)], case.size_map[str(right)]
        drawn = draw(problem, case, "normal", 5)
        assert int(drawn["source"].max()) < rows and int(drawn["target_"].max()) < min(rows, others)


@pytest.mark.parametrize(
    ("body", "axis"),
    [
        ("x[i]", 0),
        ("x[:, i]", 1),
        ("x.gather(1, i.long().unsqueeze(1).expand(-1, 2)[:1])", 1),
        ("F.embedding(i, x)", 0),
        ("x.index_select(1, i)", 1),
        ("x.index_add(0, i, torch.ones(i.shape[0], x.shape[1]))", 0),
    ],
)
def test_the_axis_is_that_of_the_operation(body: str, axis: int) -> None:
    problem = opened(
        f"def f(x, i): return {body}\ninputs = [torch.randn(90, 70), torch.randint(0, 60, (40,))]"
    )
    assert indexed_sizes(problem) == {"i": (problem.tensors[0].dims[axis],)}


def test_an_index_that_is_no_less_than_the_first_ends_with_every_table() -> None:
    """Pages of which there is none are the first."""
    problem = opened(
        "def f(x, y, i): return x[i.clamp(min=0)] * y[i.clamp(0)]\n"
        "inputs = [torch.randn(90, 7), torch.rand(90, 7), torch.randint(-1, 90, (40,))]"
    )
    assert set(indexed_sizes(problem)["i"]) == {spec.dims[0] for spec in problem.tensors[:2]}


def test_what_a_mask_lies_on_is_as_large_as_it() -> None:
    problem = opened(
        "def f(x, n):\n"
        "    y = x * 2\n"
        "    y[torch.arange(x.shape[1])[None, :] >= n[:, None]] = 0\n"
        "    return y\n"
        "inputs = [torch.randn(9, 30, 4), torch.randint(1, 30, (9,))]"
    )
    assert problem.tensors[0].dims[0] == problem.tensors[1].dims[0]
    assert "library(" not in generate(problem, ()).kernel.source


def test_two_tables_of_their_own_have_indices_of_their_own() -> None:
    problem = opened(
        "def f(i, j, x, y): return x[i] * y[j]\n"
        "places = [torch.randint(0, 9, (20,)), torch.randint(0, 2, (20,))]\n"
        "inputs = [*places, torch.randn(9, 4), torch.randn(2, 4)]"
    )
    assert (end(problem, "i"), end(problem, "j")) == tuple(spec.dims[0] for spec in problem.tensors[2:])


def test_a_place_that_is_computed_is_not_read_off_the_graph() -> None:
    problem = opened(
        "def f(x, i): return x[(i * 3) % x.shape[0]]\n"
        "inputs = [torch.randn(9, 4), torch.randint(0, 100, (20,))]"
    )
    assert indexed_sizes(problem) == {} and end(problem, "i") is None
    assert int(draw(problem, problem.cases[0], "normal", 1)["i"].max()) > 9


def test_what_is_drawn_for_several_tables_is_the_same_on_every_run() -> None:
    problem = opened(EDGES)
    one, other = (draw(problem, problem.proofs[2], "normal", 3)["target_"] for _ in range(2))
    assert torch.equal(one, other)


LENGTHS = """def mean(x, lengths):
    there = torch.arange(x.shape[1])[None] < lengths[:, None]
    return (x * there).sum(1) / lengths
inputs = [torch.randn(24, 900), torch.randint(300, 900, (24,))]
"""


def test_lengths_end_with_the_axis_that_they_are_counted_along() -> None:
    """From the range of the person's own all would lie beyond a short axis, and would not matter."""
    problem = opened(LENGTHS)
    columns = problem.tensors[0].dims[1]
    assert end(problem, "lengths") == f"{columns} + 1"
    assert any(case.size_map[str(columns)] < 300 for case in problem.proofs)
    for case in problem.proofs:
        size = case.size_map[str(columns)]
        drawn = torch.cat([draw(problem, case, "normal", seed)["lengths"] for seed in range(40)])
        assert drawn.min() >= 1 and size / 2 < drawn.max() <= size


@pytest.mark.many(3)
@pytest.mark.parametrize(
    ("body", "more"),
    [
        ("x.masked_fill(torch.arange(x.shape[1]) >= i[:, None], 0)", 1),
        ("x * (i.view(-1, 1) == torch.arange(x.shape[1]))", 0),
        ("x * (torch.arange(x.shape[1]) < i[:, None] + 3)", None),
        ("x * (torch.arange(x.shape[1]) * 2 < i[:, None])", None),
        ("x * (torch.arange(1, x.shape[1] + 1) <= i[:, None])", None),
    ],
)
def test_only_what_is_compared_with_places_is_counted_along_them(body: str, more: int | None) -> None:
    problem = opened(
        f"def f(x, i): return {body}\ninputs = [torch.randn(40, 70), torch.randint(2, 70, (40,))]"
    )
    size = problem.tensors[0].dims[1]
    ends = {0: size, 1: f"{size} + 1"}
    assert counted_ends(problem) == ({} if more is None else {"i": ends[more]})


def test_numbers_that_go_far_beyond_an_axis_are_not_counted_along_it() -> None:
    problem = opened(
        "def f(x, i): return x * (torch.arange(x.shape[1]) < i[:, None])\n"
        "inputs = [torch.randn(40, 70), torch.randint(0, 1000, (40,))]"
    )
    assert counted_ends(problem) == {} and end(problem, "i") is None


def test_names_that_are_compared_with_one_another_are_alike_now_and_then() -> None:
    """Of a few that are drawn from a hundred thousand no two are, and what happens then is not seen."""
    problem = opened(
        "def loss(logits, ids):\n"
        "    same = ids[:, None] == ids[None, :]\n"
        "    return logits.masked_fill(same, -9.0).logsumexp(1)\n"
        "inputs = [torch.randn(400, 400), torch.randint(0, 100000, (400,))]"
    )
    size = problem.tensors[1].dims[0]
    assert end(problem, "ids") == (100000, size)
    drawn = [draw(problem, case, "normal", 1)["ids"] for case in problem.proofs]
    assert any(ids.unique().numel() < ids.numel() for ids in drawn)
