"""Reductions over parts of rows that go along the whole rows, in the kernel that writes these."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of, run
from workbench.model import H100, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of, traits_of

half = torch.float16


def frames(t: dict[str, Tensor]) -> Tensor:
    wave = torch.cat([t["x"][:, :1], t["x"][:, 1:] - 0.97 * t["x"][:, :-1]], 1)
    found = wave.unfold(-1, 20, 8)
    found = found - found.mean(-1, keepdim=True)
    return F.pad(found * t["w"], (0, 12))


def in_the_middle(t: dict[str, Tensor]) -> Tensor:
    x = t["x"]
    return F.pad(x - x.mean(-1, keepdim=True), (5, 3))


def softmax(t: dict[str, Tensor]) -> Tensor:
    return F.pad(t["x"].softmax(-1), (0, 7))


def norm(t: dict[str, Tensor]) -> Tensor:
    return F.pad(F.layer_norm(t["x"], t["x"].shape[-1:]), (4, 4))


def first_half(t: dict[str, Tensor]) -> Tensor:
    return t["x"] - t["x"][:, : t["x"].shape[1] // 2].amax(1, keepdim=True)


def second_half(t: dict[str, Tensor]) -> Tensor:
    return t["x"] - t["x"][:, t["x"].shape[1] // 2 :].sum(1, keepdim=True)


CASES: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "frames": (frames, of(x=(3, 67), w=(20,))()),
    "padded on both sides": (in_the_middle, of(x=(5, 40))()),
    "softmax": (softmax, of(x=(2, 3, 33))()),
    "half softmax": (softmax, of(x=((6, 40), half))()),
    "layer norm": (norm, of(x=(5, 48))()),
    "first half": (first_half, of(x=(5, 36))()),
    "second half": (second_half, of(x=(5, 36))()),
    "integers": (first_half, {"x": torch.arange(5 * 36, dtype=torch.int32).reshape(5, 36) ** 2 % 97}),
}
WIDENED = [name for name in CASES if name != "integers"]
VECTORS: tuple[Vector, ...] = (
    (),
    (("threads_per_row", "warp"),),
    (("threads_per_row", "warp"), ("vector_width", "4"), ("single_pass", "on")),
    (("vector_width", "2"), ("loads_in_flight", "4"), ("stores", "streamed")),
    (("threads_per_row", "warp"), ("row_cache", "registers"), ("vector_width", "4")),
    (("wider_rows", "off"),),
)


@pytest.mark.many(11)
@pytest.mark.parametrize(("name", "vector"), crossed(CASES, VECTORS))
def test_wider_rows_are_right(name: str, vector: Vector) -> None:
    call, tensors = CASES[name]
    check(call, generate(problem_of(call, tensors, "wide"), vector).kernel.source, tensors, "checked")


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WIDENED)
def test_one_kernel_has_the_rows_for_both(name: str) -> None:
    problem = problem_of(*CASES[name])
    assert "wider_rows" in traits_of(problem).rewrites
    assert len(program_of(problem, True).steps) == 1
    assert len(program_of(problem, True, frozenset(["wider_rows"])).steps) >= 2


@pytest.mark.many(11)
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("frames", (3, 32)),
        ("frames", (2, 120)),
        ("padded on both sides", (1, 3)),
        ("padded on both sides", (7, 600)),
        ("softmax", (1, 2, 1)),
        ("softmax", (2, 2, 130)),
        ("first half", (4, 37)),
        ("second half", (1, 2)),
        ("second half", (3, 301)),
    ],
)
def test_one_kernel_takes_other_lengths(name: str, shape: tuple[int, ...]) -> None:
    call, traced = CASES[name]
    problem = problem_of(call, traced)
    tensors = {**traced, "x": torch.randn(shape)}
    for vector in VECTORS[:3]:
        check(call, generate(problem, vector).kernel.source, tensors, "checked")


def test_what_is_beside_the_part_does_not_enter() -> None:
    """The second half has the largest values, and no numbers, which the maximum of the first must not see."""
    x = torch.randn(4, 36)
    x[:, 20:] = torch.inf
    x[:, 30:] = torch.nan
    for vector in VECTORS:
        (got,) = run(generate(problem_of(first_half, {"x": x}), vector).kernel.source, {"x": x}).outputs
        assert torch.equal(got[:, :20], first_half({"x": x})[:, :20])


@pytest.mark.parametrize(
    ("call", "tensors"),
    [
        (lambda t: t["x"] - t["x"][:, :8].mean(1, keepdim=True), of(x=(6, 40))()),  # a fifth of the row
        (lambda t: t["x"] * t["y"].mean(1, keepdim=True), of(x=(6, 40), y=(6, 30))()),  # of another tensor
        (lambda t: t["x"] - t["x"].mean(1, keepdim=True), of(x=(6, 40))()),  # the row itself
        (lambda t: t["x"] - t["x"][:, :24].argmax(1, keepdim=True), of(x=(6, 40))()),  # a place
    ],
)
def test_other_reductions_are_left_alone(call: Call, tensors: dict[str, Tensor]) -> None:
    assert "wider_rows" not in traits_of(problem_of(call, tensors)).rewrites


def test_rows_of_which_all_is_read_under_conditions_are_read_by_warps() -> None:
    """Neighbouring lanes read neighbouring samples: a thread a frame would ask for a line each."""
    call, tensors = CASES["frames"]
    problem = problem_of(call, tensors)
    assert all(row.shape.neighbours for row in traits_of(problem).rows)
    source = generate(problem, (("threads_per_row", "warp"),)).kernel.source
    assert "One warp a row" in source and len(plan_of(source, tensors).instances) == 1


def test_wider_rows_are_expected_to_be_faster_and_are_tried_first() -> None:
    call, _ = CASES["frames"]
    problem = problem_of(call, of(x=(64, 80000), w=(20,))())
    sizes = problem.cases[0].size_map
    on, off = (
        estimate(
            problem, settled(problem, (("threads_per_row", "warp"), ("wider_rows", value))), H100, sizes
        ).us
        for value in ("on", "off")
    )
    assert on < 0.9 * off
    first = next(
        card for card in seed_vectors(problem, H100, 8) if ("fusion", "none") not in (card.vector or ())
    )
    assert dict(first.vector or ())["wider_rows"] == "on"
