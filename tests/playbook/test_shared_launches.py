"""Launches are shared by steps that put values where data says, and on both sides of a library's call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from tests.playbook.test_scattered_sums import indices, of_rows, one_after_the_other
from workbench.model import H100
from workbench.plan.facts import facts
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import settled

Tensors = dict[str, Tensor]


def caches(t: Tensors) -> tuple[Tensor, Tensor]:
    """Keys and values into their slots, each cache with slots of its own number."""
    keys, values = t["k"].clone(), t["v"].clone()
    keys[t["i"]] = t["x"].to(keys.dtype)
    return keys, values.index_copy(0, t["i"], t["y"])


def of_two_caches() -> Tensors:
    caches = {"k": torch.randn(12, 16).bfloat16(), "v": torch.randn(10, 16)}
    return {**caches, "x": torch.randn(9, 16), "y": torch.randn(9, 16), "i": indices(10, 9)}


def both_ends(t: Tensors) -> tuple[Tensor, Tensor]:
    """Sums at the ends of edges: two tables of their own."""
    nothing = torch.zeros_like(t["x"])
    return nothing.index_add(0, t["i"], t["v"]), nothing.index_add(0, t["j"], t["v"].exp())


def of_edges() -> Tensors:
    return {"x": torch.randn(7, 8), "v": torch.randn(40, 8), "i": indices(7, 40), "j": indices(7, 40).flip(0)}


def of_chains() -> Tensors:
    return {"x": torch.randn(6, 8), "v": torch.randn(9, 8), "to": indices(6, 9), "of": indices(6, 9).flip(0)}


CASES: dict[str, tuple[Call, Callable[[], Tensors], tuple[int, int]]] = {
    # launches apart, and beside one another
    "two caches": (caches, of_two_caches, (6, 3)),
    "both ends of edges": (both_ends, of_edges, (4, 2)),
    "one after the other": (one_after_the_other, of_chains, (8, 5)),
    "of rows": (of_rows, lambda: {"x": torch.randn(40, 6)}, (3, 2)),
}


@pytest.mark.many(3)
@pytest.mark.parametrize("width", ["32", "64"])
@pytest.mark.parametrize("name", CASES)
def test_launches_are_shared_and_nothing_is_put_before_there_is_room(name: str, width: str) -> None:
    call, make, (apart, beside) = CASES[name]
    tensors = make()
    problem = problem_of(call, tensors)
    for launches, count in (("apart", apart), ("beside", beside), ("together", 1)):
        vector = settled(
            problem,
            (("launches", launches), ("index_width", width), ("block_size", "64"), ("vector_width", "4")),
        )
        assert dict(vector)["launches"] == launches
        source = generate(problem, vector).kernel.source
        assert facts(plan_of(source, tensors), "call").launches == count
        assert estimate(problem, vector, H100, problem.cases[0].size_map).launches == count
        assert ("need smaller tensors" in source) == (width == "32")
        check(call, source, tensors, "checked" if launches == "together" else "plain")


def test_what_goes_plane_by_plane_has_no_places_to_be_put_at() -> None:
    tensors = of_edges()
    problem = problem_of(both_ends, tensors)
    vector = settled(problem, (("launches", "turns"),))
    assert dict(vector).get("launches") != "turns"


def around_a_product(t: Tensors) -> tuple[Tensor, Tensor, Tensor]:
    """Both factors are made, and rows and columns of what they come to are used."""
    b = t["b"].exp()
    product = t["a"].softmax(1) @ b
    return product.softmax(1), product.amax(0), b.sum(0)


def test_kernels_before_a_product_share_a_launch_and_those_behind_it_another() -> None:
    tensors = {"a": torch.randn(24, 64), "b": torch.randn(64, 40)}
    problem = problem_of(around_a_product, tensors)
    for launches, count in (("apart", 5), ("beside", 2)):
        vector = settled(problem, (("launches", launches),))
        assert dict(vector)["launches"] == launches
        source = generate(problem, vector).kernel.source
        assert facts(plan_of(source, tensors), "call").launches == count
        assert estimate(problem, vector, H100, problem.cases[0].size_map).launches == count + 1
        check(around_a_product, source, tensors)
    assert dict(settled(problem, (("launches", "together"),)))["launches"] == "apart"
