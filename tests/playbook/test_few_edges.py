"""Places among few sorted edges: found by the kernel that has the number, as torch finds them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.graph.few_edges import MOST_AGAIN, MOST_EDGES
from workbench.playbook.techniques.traits import traits_of

Tensors = dict[str, Tensor]


def bucketed(t: Tensors) -> Tensor:
    return torch.bucketize(t["x"], t["edges"])


def behind(t: Tensors) -> Tensor:
    return torch.searchsorted(t["edges"], t["x"], right=True, out_int32=True)


def between(t: Tensors) -> Tensor:
    """Nearest of a code, whose edges are computed: an optimiser of eight bits."""
    middle = (t["edges"][1:] + t["edges"][:-1]) / 2
    return torch.bucketize(t["x"] * 0.5, middle).to(torch.uint8)


def of_each_row(t: Tensors) -> Tensor:
    """Chances of a ray's pieces, and draws."""
    return torch.searchsorted(t["rows"].abs().cumsum(-1), t["x"], side="right")


CALLS: tuple[Call, ...] = (bucketed, behind, between, of_each_row)


def tensors_of(call: Call, count: int, dtype: torch.dtype = torch.float32) -> Tensors:
    torch.manual_seed(count)
    edges = torch.randn(count).sort().values.to(dtype)
    x = torch.randn(6, 20).to(dtype)
    x[0, :5], x[1, 0], x[1, 1] = edges[0], torch.inf, -torch.inf
    if dtype.is_floating_point:
        x[1, 2] = torch.nan
    if call is of_each_row:
        return {"rows": torch.randn(6, count).to(dtype), "x": x.nan_to_num(0.0)}
    return {"edges": edges, "x": x}


@pytest.mark.many(10)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("count", [2, 7, 20])
def test_found_as_torch_finds_them(call: Call, count: int) -> None:
    tensors = tensors_of(call, count)
    problem = problem_of(call, tensors, varying=False)
    assert "few_edges" in traits_of(problem).rewrites
    for width in ("1", "4"):
        source = generate(problem, (("vector_width", width),)).kernel.source
        assert "library(" not in source
        check(call, source, tensors, "checked")
    left = generate(problem, (("few_edges", "off"),)).kernel.source
    assert "library(" in left
    check(call, left, tensors, "checked")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
def test_of_other_types(dtype: torch.dtype) -> None:
    tensors = tensors_of(bucketed, 9, dtype) if dtype != torch.int64 else {
        "edges": torch.tensor([-3, 0, 0, 5, 9]), "x": torch.randint(-6, 12, (6, 20))
    }  # fmt: skip
    check(
        bucketed, generate(problem_of(bucketed, tensors, varying=False), ()).kernel.source, tensors, "checked"
    )


@pytest.mark.parametrize("count", [6, 7, 12, 15])
def test_edges_that_are_not_sorted_are_gone_through_as_torch_does(count: int) -> None:
    """Nobody promises anything of them; but a check may draw some."""
    tensors = {"edges": torch.randn(count), "x": torch.randn(40, 20)}
    check(
        bucketed, generate(problem_of(bucketed, tensors, varying=False), ()).kernel.source, tensors, "checked"
    )


def test_places_among_many_of_each_row_are_written_and_not_found_again() -> None:
    """Two sums read them, one along each row and one down all rows."""

    def summed_twice(t: Tensors) -> tuple[torch.Tensor, ...]:
        places = of_each_row(t)
        return places.sum(-1), places.sum(0), places

    for count in (MOST_AGAIN, MOST_AGAIN + 1, 300):
        tensors = tensors_of(of_each_row, count)
        problem = problem_of(summed_twice, tensors, varying=False)
        assert "few_edges" in traits_of(problem).rewrites
        source = generate(problem, ()).kernel.source
        assert ("place = empty(" in source) == (count > MOST_AGAIN)
        check(summed_twice, source, tensors, "checked")


def test_of_more_edges_than_a_search_is_written_for_they_are_the_library_s() -> None:
    for count in (MOST_EDGES, MOST_EDGES + 1):
        problem = problem_of(of_each_row, tensors_of(of_each_row, count), varying=False)
        assert ("few_edges" in traits_of(problem).rewrites) == (count <= MOST_EDGES)


def test_of_any_number_they_are_the_library_s() -> None:
    problem = problem_of(bucketed, tensors_of(bucketed, 64))
    assert "few_edges" not in traits_of(problem).rewrites
