"""Elements at known places of a short axis: slices, whatever computes the places."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import rewrite

Tensors = dict[str, Tensor]


def crossed(t: Tensors) -> Tensor:
    return torch.cross(t["x"], t["y"], dim=-1)


def rolled(t: Tensors) -> Tensor:
    return t["x"].roll(1, -1) - t["y"]


def chosen(t: Tensors) -> Tensor:
    return t["x"].index_select(1, torch.arange(2, -1, -1)) * t["y"]


def repeated(t: Tensors) -> Tensor:
    return t["x"].index_select(1, torch.arange(5) % 2 * 2)


def straight(t: Tensors) -> Tensor:
    return t["x"].index_select(1, torch.arange(2) + 1)


@pytest.mark.many(13)
@pytest.mark.parametrize("call", [crossed, rolled, chosen, repeated, straight])
@pytest.mark.parametrize("width", ["1", "4"])
def test_known_places_are_slices(call: Call, width: str) -> None:
    tensors = {"x": torch.randn(23, 3), "y": torch.randn(23, 3)}
    if call in (repeated, straight):
        del tensors["y"]
    problem = problem_of(call, tensors, varying=False)
    assert not any("index_select" in node.op for node in rewrite(problem).nodes)
    for value in ("on", "off"):
        vector = (("axis_a_thread", value), ("constant_places", value), ("vector_width", width))
        check(call, generate(problem, vector).kernel.source, tensors, "checked")


def test_tables_made_inside_the_reference_are_looked_up() -> None:
    def vectors(t: Tensors) -> Tensor:
        shifts = [(y, x) for y in range(-4, 5) for x in range(-4, 5)]
        return torch.tensor(shifts)[t["x"].argmin(1)]

    def levels(t: Tensors) -> Tensor:
        return torch.tensor([k * abs(k) / 64 for k in range(-40, 41)])[t["x"].argmin(1)] + t["x"][:, 0]

    tensors = {"x": torch.randn(9, 81)}
    for call in (vectors, levels):
        check(call, generate(problem_of(call, tensors, varying=False), ()).kernel.source, tensors, "checked")


def test_places_that_are_data_and_axes_with_others_behind_them_are_looked_up() -> None:
    def by_data(t: Tensors) -> Tensor:
        return t["x"].index_select(1, t["at"])

    def in_front(t: Tensors) -> Tensor:
        return t["x"].index_select(0, torch.arange(3) % 2)

    tensors = {"x": torch.randn(5, 3), "at": torch.tensor([2, 0])}
    for call, given in ((by_data, tensors), (in_front, {"x": tensors["x"]})):
        problem = problem_of(call, given, varying=False)
        assert any("index_select" in node.op for node in rewrite(problem).nodes)
        check(call, generate(problem, ()).kernel.source, given, "checked")
