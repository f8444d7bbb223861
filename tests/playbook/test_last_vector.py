"""Lines that end inside of a vector: all but the last are whole, and nothing beyond the end is touched."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import H100, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]


def gated(t: Tensors) -> Tensor:
    return torch.nn.functional.silu(t["x"]) * t["y"]


def with_a_bias(t: Tensors) -> Tensor:
    return torch.relu(t["x"] + t["b"]) * t["y"]


def turned(t: Tensors) -> Tensor:
    return t["x"] + t["y"].flip(1)


def whole_numbers(t: Tensors) -> Tensor:
    return t["i"] // t["j"]


def first_row_replaced(t: Tensors) -> Tensor:
    x = t["x"] + 1
    x[:1] = x[-1:]
    return x * 2


LAYOUTS: list[Vector] = [
    (("index_width", "64"), ("vector_width", "4")),
    (("index_width", "32"), ("loads_in_flight", "2"), ("vector_width", "4")),
    (("persistent_grid", "on"), ("vector_width", "2")),
]


@pytest.mark.many(13)
@pytest.mark.parametrize("shape", [(7, 143), (1, 3)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("call", [gated, with_a_bias, whole_numbers])
def test_a_line_that_ends_inside_of_a_vector(call: Call, layout: Vector, shape: tuple[int, int]) -> None:
    tensors = {name: torch.randn(shape) for name in "xy"} | {"b": torch.randn(shape[1])}
    tensors |= {name: torch.randint(1, 9, shape) for name in "ij"}
    tensors = {name: value for name, value in tensors.items() if name in call.__code__.co_consts}
    source = generate(problem_of(call, tensors), layout).kernel.source
    assert source.count("store_within<VEC") == 1
    check(call, source, tensors, "checked")


def test_lines_that_vectors_divide_know_nothing_of_it_and_neither_does_what_lies_elsewhere() -> None:
    whole = {name: torch.randn(8, 16) for name in "xy"}
    odd = {name: torch.randn(3, 5) for name in "xy"}
    wide = (("vector_width", "4"),)
    assert "within" not in generate(problem_of(gated, whole), wide).kernel.source
    assert "within" not in generate(problem_of(turned, odd), wide).kernel.source
    streamed = (*wide, ("stream_hints", "on"))
    assert "within" not in generate(problem_of(gated, odd), streamed).kernel.source


@pytest.mark.many(3)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_of_two_branches_is_not_read_beyond_the_end(layout: Vector) -> None:
    tensors = {"x": torch.randn(7, 143)}
    source = generate(problem_of(first_row_replaced, tensors), (("fusion", "none"), *layout)).kernel.source
    check(first_row_replaced, source, tensors, "checked")


def test_the_model_knows_that_odd_lines_go_in_vectors() -> None:
    tensors = {name: torch.randn(4095, 4097, device="meta") for name in "xy"}
    problem = problem_of(gated, tensors)
    sizes = problem.cases[0].size_map
    one, four = (estimate(problem, (("vector_width", w),), H100, sizes).us for w in ("1", "4"))
    assert one > 1.1 * four
