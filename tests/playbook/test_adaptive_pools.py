"""Adaptive pools, also to sizes that do not divide: against PyTorch on the emulator."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check
from tests.playbook.test_pools import few_values
from workbench.playbook.generate import generate
from workbench.playbook.techniques.traits import traits_of

half = torch.float16
plane, line, volume = of(x=(2, 3, 30, 33)), of(x=(2, 3, 100)), of(x=(1, 2, 9, 10, 11))

CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "unequal": (lambda t: F.adaptive_avg_pool2d(t["x"], 7), plane()),
    "one axis unequal": (lambda t: F.adaptive_avg_pool2d(t["x"], (7, 11)), plane()),
    "small": (lambda t: F.adaptive_avg_pool2d(t["x"], 6).relu() * 2, of(x=(2, 3, 13, 13))()),
    "more than there are": (lambda t: F.adaptive_avg_pool2d(t["x"], (40, 5)), plane()),
    "half": (lambda t: F.adaptive_avg_pool2d(t["x"], 7), of(x=((2, 3, 30, 33), half))()),
    "computed": (lambda t: F.adaptive_avg_pool2d(t["x"].exp().sin() * 2 + t["x"], 7), plane()),
    "even": (lambda t: F.adaptive_avg_pool2d(t["x"], (5, 3)), plane()),
    "whole": (lambda t: F.adaptive_avg_pool2d(t["x"], 1), plane()),
    "line": (lambda t: F.adaptive_avg_pool1d(t["x"], 7), line()),
    "volume": (lambda t: F.adaptive_avg_pool3d(t["x"], 4), volume()),
    "even volume": (lambda t: F.adaptive_avg_pool3d(t["x"], (3, 5, 1)), volume()),
    "area": (lambda t: F.interpolate(t["x"], size=(7, 8), mode="area"), plane()),
    "area by a factor": (lambda t: F.interpolate(t["x"], scale_factor=0.3, mode="area"), plane()),
    "largest": (lambda t: F.adaptive_max_pool2d(t["x"], 7), plane()),
    "largest, even": (lambda t: F.adaptive_max_pool2d(t["x"], (5, 3)), plane()),
    "largest of all": (lambda t: F.adaptive_max_pool2d(t["x"], 1) * 2, plane()),
    "largest, line": (lambda t: F.adaptive_max_pool1d(t["x"], 7), line()),
    "largest, volume": (lambda t: F.adaptive_max_pool3d(t["x"], 4), volume()),
}


@pytest.mark.many(29)
@pytest.mark.parametrize(("name", "varying"), crossed(CALLS, [True, False]))
def test_right(name: str, varying: bool) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "pool", varying)
    assert not traits_of(problem).library_calls
    vectors = ((), (("index_width", "32"), ("vector_width", "4"), ("window_parts", "shared")))
    for source in dict.fromkeys(generate(problem, vector).kernel.source for vector in vectors):
        check(call, source, tensors, "checked")


@pytest.mark.many(2)
@pytest.mark.parametrize("outs", [7, (5, 3), (6, 33)], ids=str)
def test_of_equal_ones_the_first_has_the_place(outs: int | tuple[int, int]) -> None:
    call: Call = lambda t: F.adaptive_max_pool2d(t["x"], outs, return_indices=True)  # noqa: E731
    tensors = {"x": few_values((2, 3, 30, 33))}
    problem = problem_of(call, tensors, "pool", varying=False)
    assert not traits_of(problem).library_calls
    check(call, generate(problem, ()).kernel.source, tensors, "checked")


def test_places_in_a_volume() -> None:
    call: Call = lambda t: F.adaptive_max_pool3d(t["x"], 4, return_indices=True)  # noqa: E731
    tensors = {"x": few_values((1, 2, 9, 10, 11))}
    problem = problem_of(call, tensors, "pool", varying=False)
    assert not traits_of(problem).library_calls
    check(call, generate(problem, ()).kernel.source, tensors, "checked")


def test_other_sizes_than_those_traced() -> None:
    call, tensors = CALLS["unequal"]
    source = generate(problem_of(call, tensors, "pool"), ()).kernel.source
    for shape in ((1, 2, 49, 7), (1, 1, 15, 100), (2, 1, 3, 20)):
        check(call, source, {"x": torch.randn(shape)}, "checked")


def test_each_operation_apart_is_right() -> None:
    for name in ("unequal", "largest"):
        call, tensors = CALLS[name]
        check(call, generate(problem_of(call, tensors), (("fusion", "none"),)).kernel.source, tensors)
