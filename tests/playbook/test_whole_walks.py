"""Reductions over parts of a tensor: over the whole of it, so that several share one walk."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, run
from workbench.model import H100, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of, traits_of

half = torch.float16
bfloat = torch.bfloat16


def across(x: Tensor) -> Tensor:
    return (x[..., 1:] - x[..., :-1]).abs()


def down(x: Tensor) -> Tensor:
    return (x[..., 1:, :] - x[..., :-1, :]).abs()


def variation(t: dict[str, Tensor]) -> Tensor:
    return down(t["x"]).mean() + across(t["x"]).mean()


def per_image(t: dict[str, Tensor]) -> Tensor:
    return down(t["x"]).mean((1, 2, 3)) + across(t["x"]).sum((1, 2, 3))


def largest(t: dict[str, Tensor]) -> Tensor:
    return down(t["x"]).amax() - across(t["x"]).amin()


def inner(t: dict[str, Tensor]) -> Tensor:
    x = t["x"]
    return (x[..., 1:-1, 2:] - x[..., 1:-1, :-2]).square().sum() + x.square().mean()


def apart(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    return down(t["x"]).mean(), across(t["x"]).mean()


def of_two(t: dict[str, Tensor]) -> Tensor:
    return ((t["x"][:, 1:] - t["y"][:, :-1]) * (t["x"][:, :-1] - t["y"][:, 1:])).sum()


def counted(t: dict[str, Tensor]) -> Tensor:
    return (t["x"][:, 1:] - t["x"][:, :-1]).sum()


CASES: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "total variation": (variation, of(x=(2, 3, 24, 32))()),
    "of odd images": (variation, of(x=(2, 3, 19, 23))()),
    "of even images": (variation, of(x=(1, 3, 17, 22))()),
    "half": (variation, of(x=((2, 2, 16, 24), half))()),
    "bfloat16": (variation, of(x=((2, 2, 9, 24), bfloat))()),
    "an image": (per_image, of(x=(3, 2, 16, 20))()),
    "extremes": (largest, of(x=(2, 2, 16, 17))()),
    "two apart, and the whole": (inner, of(x=(2, 32, 36))()),
    "two results": (apart, of(x=(3, 16, 16))()),
    "two tensors": (of_two, of(x=(5, 33), y=(5, 33))()),
    "integers": (counted, {"x": torch.arange(7 * 16, dtype=torch.int32).reshape(7, 16) ** 2 % 97}),
}
VECTORS: tuple[Vector, ...] = (
    (),
    (("vector_width", "4"),),
    (("vector_width", "4"), ("loads_in_flight", "4")),
    (("vector_width", "2"), ("threads_per_row", "warp"), ("stream_hints", "on")),
    (("vector_width", "4"), ("grid_split", "on"), ("split_join", "last"), ("stream_hints", "on")),
    (("vector_width", "4"), ("grid_split", "on"), ("split_join", "told"), ("loads_in_flight", "4")),
    (("whole_walks", "off"),),
)


@pytest.mark.many(13)
@pytest.mark.parametrize(("name", "vector"), crossed(CASES, VECTORS))
def test_walks_over_the_whole_are_right(name: str, vector: Vector) -> None:
    call, tensors = CASES[name]
    problem = problem_of(call, tensors, "walked")
    assert "whole_walks" in traits_of(problem).rewrites
    check(call, generate(problem, vector).kernel.source, tensors, "checked")


SHAPES = [(2, 3, 2, 2), (1, 1, 7, 3), (2, 3, 1, 20), (2, 3, 20, 1), (3, 1, 12, 64)]


@pytest.mark.many(6)
@pytest.mark.parametrize(("shape", "vector"), crossed(SHAPES, VECTORS))
def test_one_kernel_takes_other_shapes(shape: tuple[int, ...], vector: Vector) -> None:
    """Of one row, or one column, the mean of no distances is NaN, as torch has it."""
    problem = problem_of(*CASES["total variation"])
    check(variation, generate(problem, vector).kernel.source, of(x=shape)(), "checked")


@pytest.mark.parametrize("name", ["total variation", "two results"])
def test_several_share_one_walk(name: str) -> None:
    problem = problem_of(*CASES[name])
    assert len(program_of(problem, True).steps) == 1
    assert len(program_of(problem, True, frozenset(["whole_walks"])).steps) == 2


@pytest.mark.parametrize(
    ("call", "tensors"),
    [
        (lambda t: across(t["x"]).mean() + down(t["x"]).mean(), of(x=(3, 5, 6))()),  # a sixth is no distance
        (lambda t: t["x"][:, 1:].mean(), of(x=(9, 40))()),  # read in one place
        (lambda t: (t["x"][1:] - t["x"][:-1]).mean(), of(x=(40, 9))()),  # has no gaps
        (lambda t: (t["x"][:, 1:] - t["x"][:, :-1]).mean(), {"x": torch.randn(40, 18).t()}),
    ],
)
def test_other_reductions_are_left_alone(call: Call, tensors: dict[str, Tensor]) -> None:
    assert "whole_walks" not in traits_of(problem_of(call, tensors)).rewrites


def test_what_lies_outside_is_not_added() -> None:
    """The last of a line and the first of the next are no neighbours, however far apart their values are."""
    x = torch.zeros(4, 3, 16, 32)
    x[..., 0] = torch.inf
    x[:, 1:] = torch.nan
    tensors = {"x": x[:, :1].contiguous()}
    for vector in VECTORS:
        source = generate(problem_of(apart, tensors), vector).kernel.source
        for got, want in zip(run(source, tensors).outputs, apart(tensors), strict=True):
            assert torch.equal(got.isnan(), want.isnan()) and (got.isnan() or got == want)


def test_neighbours_come_out_of_the_same_vector() -> None:
    """Of four elements three have their neighbour in the vector that is loaded anyway."""
    call, tensors = CASES["total variation"]
    source = generate(problem_of(call, tensors), (("vector_width", "4"),)).kernel.source
    counts = check(call, source, tensors, "checked").report.counts
    assert counts is not None and "load_if<VEC>" in source
    assert counts.load_bytes <= 2.25 * 4 * tensors["x"].numel()


def test_overlapping_reads_are_not_streamed() -> None:
    call, tensors = CASES["total variation"]
    vector = (("vector_width", "4"), ("stream_hints", "on"))
    source = generate(problem_of(call, tensors), vector).kernel.source
    assert not re.search(r"load_once<VEC>\(x|__ldcs\(&x", source)


def test_one_walk_is_expected_to_be_faster_and_is_tried_first() -> None:
    call, _ = CASES["total variation"]
    problem = problem_of(call, of(x=(32, 3, 512, 512))())
    shared = (("vector_width", "4"), ("grid_split", "on"), ("split_join", "told"))
    sizes = problem.cases[0].size_map
    on, off = (
        estimate(problem, settled(problem, (*shared, ("whole_walks", value))), H100, sizes).us
        for value in ("on", "off")
    )
    assert on < 0.8 * off
    first = next(
        card for card in seed_vectors(problem, H100, 8) if ("fusion", "none") not in (card.vector or ())
    )
    assert dict(first.vector or ())["whole_walks"] == "on"
