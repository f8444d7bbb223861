"""Nearest neighbours: where each becomes two, four or more, they are copies, and no place is computed."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]


def scaled(t: Tensors, by: float | tuple[float, ...], mode: str = "nearest") -> Tensor:
    return F.interpolate(t["x"], scale_factor=by, mode=mode) * 2.0


def to_twice_its_size(t: Tensors) -> Tensor:
    height, width = t["x"].shape[2:]
    return F.interpolate(t["x"], size=(2 * height, 2 * width)) + 1.0


def to_a_size(t: Tensors) -> Tensor:
    return F.interpolate(t["x"], size=(12, 5)) + 1.0


def pyramid(t: Tensors) -> tuple[Tensor, Tensor]:
    small = F.avg_pool2d(t["x"], 2)
    return small, t["x"] - F.interpolate(small, scale_factor=2)


COPIED: dict[str, tuple[Call, int]] = {
    "one axis": (partial(scaled, by=4), 1),
    "two axes": (partial(scaled, by=2), 2),
    "three axes": (partial(scaled, by=2), 3),
    "one of two": (partial(scaled, by=(1.0, 2.0)), 2),
    "nearest-exact": (partial(scaled, by=2, mode="nearest-exact"), 2),
    "a size from the shape": (to_twice_its_size, 2),
    "taken off what it was pooled from": (pyramid, 2),
}
COMPUTED: dict[str, tuple[Call, int]] = {
    "three times": (partial(scaled, by=3), 2),
    "half": (partial(scaled, by=0.5), 2),
    "half along one axis, exact": (partial(scaled, by=(0.5, 2.0), mode="nearest-exact"), 2),
    "a fixed size": (to_a_size, 2),
}


@pytest.mark.many(41)
@pytest.mark.parametrize("width", ["1", "4"])
@pytest.mark.parametrize("name", [*COPIED, *COMPUTED])
def test_right(name: str, width: str) -> None:
    call, axes = {**COPIED, **COMPUTED}[name]
    tensors = {"x": torch.randn(2, 3, *(4, 6, 8)[3 - axes :])}
    source = generate(problem_of(call, tensors), (("fusion", "all"), ("vector_width", width))).kernel.source
    check(call, source, tensors)
    check(call, source, {"x": torch.randn(3, 2, *(6, 2, 4)[3 - axes :])})


@pytest.mark.many(7)
@pytest.mark.parametrize("name", COPIED)
def test_copies_are_found_without_computing_places(name: str) -> None:
    call, axes = COPIED[name]
    tensors = {"x": torch.randn(2, 3, *(4, 6, 8)[3 - axes :])}
    source = generate(problem_of(call, tensors), (("fusion", "all"),)).kernel.source
    assert "long long" not in source and "float(" not in source


def test_copies_are_read_once_a_vector() -> None:
    def added(t: Tensors) -> Tensor:
        return F.interpolate(t["coarse"], scale_factor=2) + t["fine"]

    tensors = {"coarse": torch.randn(2, 3, 4, 8), "fine": torch.randn(2, 3, 8, 16)}
    source = generate(problem_of(added, tensors), (("fusion", "all"), ("vector_width", "4"))).kernel.source
    assert "coarse_shared.at[k / 2] + fine_pack.at[k]" in source
    check(added, source, tensors)


@pytest.mark.parametrize("scales", [(1.0, 2.0, 2.0), (1.0, 1.0, 2.0)])
def test_an_axis_that_stays_as_long_as_it_is_has_no_neighbours(scales: tuple[float, ...]) -> None:
    """Of eight corners those along the depth have no weight: they are not read, nor made again."""
    call = partial(scaled, by=scales, mode="trilinear")
    tensors = {"x": torch.randn(2, 3, 4, 6, 8)}
    problem = problem_of(call, tensors)
    looked_up = [node for node in problem.graph.nodes if node.base_name == "index_select"]
    assert len(looked_up) == 2 * sum(scale != 1 for scale in scales)
    check(call, generate(problem, (("fusion", "all"),)).kernel.source, tensors, "checked")
