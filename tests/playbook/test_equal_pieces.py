"""A concatenation of one and the same is a piece that repeats: nothing asks which piece an element is of."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import Vector
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]
VECTORS: Vector = (("block_size", "64"), ("index_width", "32"), ("vector_width", "4"))


def twice(t: Tensors) -> Tensor:
    angle = t["x"].exp() * 0.5
    return t["y"] * torch.cat([angle, angle], dim=-1).cos()


def three_times_down(t: Tensors) -> Tensor:
    power = t["x"].sin()
    return torch.cat([power, t["x"].sin(), power], dim=1)


def in_front(t: Tensors) -> Tensor:
    return torch.cat([t["x"], t["x"]]) * 2.0


def pieces_of_pieces(t: Tensors) -> Tensor:
    pair = torch.cat([t["x"].exp(), t["x"].exp()], dim=-1)
    return torch.cat([pair, pair], dim=0)


@pytest.mark.many(5)
@pytest.mark.parametrize("vector", [(), VECTORS])
@pytest.mark.parametrize("call", [twice, three_times_down, in_front, pieces_of_pieces])
def test_equal_pieces_are_computed_without_a_choice(call: Call, vector: Vector) -> None:
    tensors = {"x": torch.randn(3, 5, 8), "y": torch.randn(3, 5, 16)}
    if call is not twice:
        del tensors["y"]
    source = generate(problem_of(call, tensors), vector).kernel.source
    kernel = source[source.index("__global__") :]
    assert "in_piece" not in kernel
    assert vector or " ? " not in kernel
    assert kernel.count("expf(") + kernel.count("sinf(") == (call is not in_front)
    check(call, source, tensors, "checked")


def different(t: Tensors) -> Tensor:
    return torch.cat([t["x"].exp(), -t["x"].exp()], dim=-1)


def of_two_kinds(t: Tensors) -> Tensor:
    return torch.cat([t["x"].exp(), t["x"].exp(), t["x"]], dim=-1)


def of_two_tensors(t: Tensors) -> Tensor:
    return torch.cat([t["x"].exp(), t["z"].exp()], dim=-1)


@pytest.mark.parametrize("call", [different, of_two_kinds, of_two_tensors])
def test_pieces_that_differ_stay_a_choice(call: Call) -> None:
    tensors = {"x": torch.randn(6, 8), "z": torch.randn(6, 8)}
    if call is not of_two_tensors:
        del tensors["z"]
    source = generate(problem_of(call, tensors), ()).kernel.source
    assert " ? " in source[source.index("__global__") :]
    check(call, source, tensors, "checked")


def half_of_it(t: Tensors) -> Tensor:
    both = torch.cat([t["x"], t["x"]], dim=-1).cos()
    return torch.cat([both[..., :8] * t["y"], both[..., 3:11]], dim=-1)


def behind_it(t: Tensors) -> Tensor:
    turned = torch.cat([t["x"], t["x"]], dim=-1).cos() * 2.0
    return torch.cat([turned, t["y"]], dim=-1)


@pytest.mark.parametrize("call", [half_of_it, behind_it])
def test_what_repeats_is_cut_and_put_beside_others(call: Call) -> None:
    tensors = {"x": torch.randn(3, 8), "y": torch.randn(3, 8)}
    check(call, generate(problem_of(call, tensors), VECTORS).kernel.source, tensors, "checked")


def summed(t: Tensors) -> Tensor:
    return (torch.cat([t["x"], t["x"]], dim=-1) * t["y"]).sum(-1)


def test_a_reduction_goes_over_what_repeats() -> None:
    tensors = {"x": torch.randn(9, 32), "y": torch.randn(9, 64)}
    vector = (("threads_per_row", "warp"), ("vector_width", "4"))
    source = generate(problem_of(summed, tensors), vector).kernel.source
    check(summed, source, tensors, "checked")
