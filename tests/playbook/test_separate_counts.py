"""Counts of conditions on different axes: a count along each, the same whole numbers."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import run
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import applying, rewrite

Tensors = dict[str, Tensor]


def inside(t: Tensors) -> Tensor:
    """The places of a box in each image, by its corners."""
    ys, xs = torch.arange(t["x"].shape[1])[:, None], torch.arange(t["x"].shape[2])
    x0, y0, x1, y1 = (edge.view(-1, 1, 1) for edge in t["boxes"].unbind(1))
    return (ys >= y0) & (ys < y1) & (xs >= x0) & (xs < x1)


def area(t: Tensors) -> tuple[Tensor, Tensor]:
    """The mask itself is wanted too, place by place."""
    return inside(t).float().mean((1, 2)), torch.where(inside(t), t["x"], 0)


def whole_numbers(t: Tensors) -> Tensor:
    return inside(t).sum((1, 2), keepdim=True)


def three_axes(t: Tensors) -> Tensor:
    """Two conditions share an axis, one has none of those that are counted along, one has fewer axes."""
    x, rows = t["x"] > 0, t["x"][:, 0, 0] > 0
    mask = (
        x[:, :, :, None] & (t["w"] > 0) & rows[:, None, None, None] & (x[:, :1, :, None] | x[:, 1:2, :, None])
    )
    return torch.logical_and(mask, t["w"] < 1).sum((1, 2, 3), dtype=torch.float32)


def drawn() -> Tensors:
    torch.manual_seed(0)
    corner = torch.randint(0, 5, (4, 2))
    boxes = torch.cat([corner, corner + torch.randint(-1, 9, (4, 2))], 1)
    return {"x": torch.randn(4, 6, 9), "boxes": boxes, "w": torch.randn(7)}


@pytest.mark.many(6)
@pytest.mark.parametrize("team", ["thread", "warp"])
@pytest.mark.parametrize("call", [area, whole_numbers, three_axes])
def test_counts_are_the_same(call: Call, team: str) -> None:
    tensors = drawn()
    problem = problem_of(call, tensors)
    assert "separate_counts" in applying(problem)
    source = generate(problem, (("threads_per_row", team),)).kernel.source
    found, wanted = run(source, tensors, "checked"), call(tensors)
    assert not found.report.hazards
    for got, want in zip(found.outputs, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert got.dtype == want.dtype and torch.equal(got, want)


def test_no_sum_goes_over_places_of_both_axes() -> None:
    graph = rewrite(problem_of(area, drawn()))
    sums = [node for node in graph.nodes if node.op == "aten.sum.dim_IntList"]
    assert [node.args[1] for node in sums] == [(1,), (2,)]


def masked_mean(t: Tensors) -> Tensor:
    """The sum of what is inside asks for every place anyway."""
    mask = inside(t)
    return torch.where(mask, t["x"], 0).sum((1, 2)) / mask.sum((1, 2))


def alike(t: Tensors) -> Tensor:
    """A condition that looks along both axes."""
    return ((t["x"] > 0) & inside(t)).sum((1, 2))


def one_axis(t: Tensors) -> Tensor:
    return inside(t).sum(2)


@pytest.mark.many(5)
@pytest.mark.parametrize("call", [masked_mean, alike, one_axis])
def test_what_is_no_product_or_no_gain_is_left_alone(call: Call) -> None:
    assert "separate_counts" not in applying(problem_of(call, drawn()))
