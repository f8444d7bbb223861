"""``grid_sample``: places that are elements to within rounding, and what lies beside them."""

from __future__ import annotations

import known_ops as ops
import pytest
import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from workbench.model import Arg, Graph
from workbench.numerics.bounds import OutputBound
from workbench.numerics.compare import compare
from workbench.numerics.running import Running
from workbench.numerics.sampling import grid_sampled
from workbench.numerics.tracked import exact

WIDTH, HEIGHT = 768, 5
NAN, INF = torch.nan, torch.inf


def sampling(mode: str = "bilinear", outside: bool = False) -> ops.Op:
    """An image at places in pixels that are computed to -1 .. 1 first; ``outside`` times a mask as well."""
    ways: tuple[Arg, ...] = (("bilinear", "nearest", "bicubic").index(mode), 0, True)

    def call(image: Tensor, at: Tensor, scale: Tensor, seen: Tensor) -> Tensor:
        read = grid_sample(image, at * scale - 1, mode=mode, padding_mode="zeros", align_corners=True)
        return read * seen if outside else read

    nodes = (
        ops.node("scaled", "aten.mul.Tensor", ops.ref("at"), ops.ref("scale")),
        ops.node("grid", "aten.sub.Tensor", ops.ref("scaled"), 1.0),
        ops.node("read", "aten.grid_sampler_2d.default", ops.ref("image"), ops.ref("grid"), *ways),
        ops.node("y", "aten.mul.Tensor", ops.ref("read"), ops.ref("seen")),
    )
    shapes = {"image": (1, 1, HEIGHT, WIDTH), "at": (1, 1, WIDTH, 2), "scale": (2,), "seen": (WIDTH,)}
    return ops.make(call, shapes, nodes if outside else nodes[:3])


def given(x_off: float = 0.0, y: float = 2.0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    at = torch.stack((torch.arange(WIDTH) + x_off, torch.full((WIDTH,), y)), dim=-1)
    return {
        "image": torch.randn(1, 1, HEIGHT, WIDTH, generator=generator),
        "at": at.reshape(1, 1, WIDTH, 2),
        "scale": 2.0 / (torch.tensor((WIDTH, HEIGHT)) - 1),
        "seen": torch.ones(WIDTH),
    }


@pytest.mark.parametrize("wild", [NAN, INF, -INF])
@pytest.mark.parametrize("outside", [False, True])
def test_beside_an_infinity_a_place_on_an_element_may_read_anything(wild: float, outside: bool) -> None:
    """Next to nothing of it, nothing times it or nothing of it: all depend on how the place is rounded."""
    op, tensors = sampling(outside=outside), given()
    tensors["image"][0, 0, 2, 300] = wild
    tensors["image"][0, 0, 3, 500] = wild
    if outside:
        tensors["seen"][299] = 0.0
    bound = op.bound(tensors)
    assert "probing" not in bound.basis
    right = op.call(**tensors)
    for beside in (299, 301, 499, 500, 501):
        for answer in (0.5, NAN, INF, -INF):
            other = right.clone()
            other[0, 0, 0, beside] = answer
            assert compare(other, bound).max_ratio <= 1
    for elsewhere in (298, 302, 498, 502):
        for answer in (0.5 + float(right[0, 0, 0, elsewhere]), NAN, wild):
            other = right.clone()
            other[0, 0, 0, elsewhere] = answer
            assert compare(other, bound).max_ratio > 1
    other = right.clone()
    other[0, 0, 0, 300] = 0.5
    assert compare(other, bound).max_ratio > 1, "what lies on it has to read it"


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("axes", [2, 3])
def test_of_two_infinities_side_by_side_nothing_may_be_read(axes: int, align: bool) -> None:
    """A place on one of them: nothing times the other is NaN. Between them, both are infinite."""
    op = getattr(torch.ops.aten, f"grid_sampler_{axes}d").default
    image = torch.zeros((1, 1) + (1,) * (axes - 1) + (9,))
    image[..., 3:5] = -INF
    image[..., 7] = INF
    pixels = torch.tensor([1.0, 2.5, 3.0, 3.5, 4.0, 7.0])
    across = 2 * pixels / 8 - 1 if align else (2 * pixels + 1) / 9 - 1
    grid = torch.zeros(1, *(1,) * (axes - 1), len(pixels), axes)
    grid[..., 0] = across
    found = grid_sampled(op, exact(image, "f32"), exact(grid, "f32"), (0, 0, align), "f32")
    assert found.error.isinf().flatten().tolist() == [False, False, True, False, True, False]


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_places_between_elements_are_held_to_float32(mode: str) -> None:
    op, tensors = sampling(mode), given(0.3, 1.3)
    bound = op.bound(tensors)
    right = op.call(**tensors)
    assert compare(right, bound).max_ratio < 0.8
    if mode == "bilinear":
        coarse = {**tensors, "at": tensors["at"].bfloat16().float()}
        assert compare(op.call(**coarse), bound).max_ratio > 100
    assert compare(right.bfloat16().float(), bound).max_ratio > 50
    assert compare(right.roll(1, -1), bound).max_ratio > 1000


def test_half_way_the_nearest_is_either() -> None:
    op, tensors = sampling("nearest"), given(0.5)
    bound = op.bound(tensors)
    row = tensors["image"][0, 0, 2]
    for answer in (row, row.roll(-1)):
        assert compare(answer.reshape(1, 1, 1, WIDTH)[..., :-1], _but_last(bound)).max_ratio <= 1
    assert compare(row.roll(-2).reshape(1, 1, 1, WIDTH)[..., :-1], _but_last(bound)).max_ratio > 1


def _but_last(bound: OutputBound) -> OutputBound:
    return OutputBound(bound.dtype, bound.expected[..., :-1], bound.allowed[..., :-1], None, bound.basis)


def test_errors_of_what_is_read_are_read_with_it() -> None:
    """An element without bound makes its neighbours so, as far as rounding may reach it."""
    nodes = (
        ops.node("image", "aten.exp.default", ops.ref("x")),
        ops.node("grid", "aten.mul.Tensor", ops.ref("at"), 1.0 / 3),
        ops.node("y", "aten.grid_sampler_2d.default", ops.ref("image"), ops.ref("grid"), 0, 0, True),
    )
    x = torch.zeros(1, 1, 1, 7)
    x[..., 3] = 88.8  # beyond float32, not beyond float64
    at = torch.stack((torch.arange(-3.0, 4.0), torch.zeros(7)), dim=-1).reshape(1, 1, 7, 2)
    graph = Graph(nodes=nodes, outputs=(ops.ref("y"),))
    (read,) = Running(sizes={}).outputs(graph, {"x": x, "at": at})
    assert read.error.isinf().flatten().tolist() == [False, False, True, True, True, False, False]
    assert bool((read.error[..., :2] > 0).all()) and bool((read.error[..., :2] < 1e-5).all())


def test_places_that_are_off_by_elements_may_read_any() -> None:
    nodes = (
        ops.node("far", "aten.add.Tensor", ops.ref("at"), 1e7),
        ops.node("grid", "aten.sub.Tensor", ops.ref("far"), 1e7),
        ops.node("y", "aten.grid_sampler_2d.default", ops.ref("image"), ops.ref("grid"), 0, 0, True),
    )
    tensors = given() | {"at": torch.rand(1, 1, WIDTH, 2)}
    graph = Graph(nodes=nodes, outputs=(ops.ref("y"),))
    (read,) = Running(sizes={}).outputs(graph, tensors)
    image = tensors["image"]
    assert bool((read.error >= float(image.max() - image.min())).all())


def test_what_one_probe_of_an_unknown_operation_makes_infinite_is_not_asked_for() -> None:
    op, tensors = sampling("bicubic"), given()
    tensors["image"][0, 0, 2, 300] = INF
    bound = op.bound(tensors)
    assert "probing" in bound.basis
    assert bool(bound.allowed[..., 299].isinf()) and bool(torch.isfinite(bound.allowed[..., :290]).all())


@pytest.mark.parametrize("wild", [NAN, INF])
def test_beside_what_is_no_number_nothing_is_asked_of_a_cubic_result(wild: float) -> None:
    """Of four elements along an axis three have a weight of about zero where a place lies on the fourth."""
    op, tensors = sampling("bicubic"), given()
    tensors["image"][0, 0, 2, 300] = wild
    bound = op.bound(tensors)
    right = op.call(**tensors)
    for beside in range(298, 303):
        for answer in (0.5, NAN, INF, -INF):
            other = right.clone()
            other[0, 0, 0, beside] = answer
            assert compare(other, bound).max_ratio <= 1
    other = right.clone()
    other[0, 0, 0, 310] += 0.5
    assert compare(other, bound).max_ratio > 1
