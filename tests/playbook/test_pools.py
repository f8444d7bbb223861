"""Pools of large windows, folded down the columns first: every form against PyTorch on the emulator."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of, run
from workbench.compile import compile_kernel
from workbench.model import H100, CompileReport, Vector
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.traits import traits_of

half = torch.float16
plane, line, volume = of(x=(2, 3, 30, 33)), of(x=(2, 3, 100)), of(x=(1, 2, 9, 10, 11))


def few_values(shape: tuple[int, ...]) -> Tensor:
    """Whole numbers, of which many are equal, and some that are none."""
    torch.manual_seed(1)
    x = torch.randint(-3, 4, shape).float()
    x.view(-1)[::13] = torch.nan
    x.view(-1)[::7] = -torch.inf
    return x


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "side by side": (lambda t: F.avg_pool2d(t["x"], 11), plane()),
    "overlapping": (lambda t: F.avg_pool2d(t["x"], 9, 2, 4).relu() + 1, plane()),
    "strips": (lambda t: F.avg_pool2d(t["x"], 9, 1, 4), plane()),
    "padding left out": (lambda t: F.avg_pool2d(t["x"], 9, 2, 4, count_include_pad=False), plane()),
    "beyond the end": (lambda t: F.avg_pool2d(t["x"], (9, 10), 4, (2, 3), ceil_mode=True), plane()),
    "beyond, left out": (
        lambda t: F.avg_pool2d(t["x"], (9, 10), 4, (2, 3), ceil_mode=True, count_include_pad=False),
        plane(),
    ),
    "small, beyond the end": (lambda t: F.avg_pool2d(t["x"], 3, 2, 1, ceil_mode=True), plane()),
    "divisor": (lambda t: F.avg_pool2d(t["x"], 9, 3, 4, divisor_override=7), plane()),
    "half": (lambda t: F.avg_pool2d(t["x"], 9, 2, 4), of(x=((2, 3, 30, 33), half))()),
    "long line": (lambda t: F.avg_pool1d(t["x"], 70, 3, 5), line()),
    "whole width": (lambda t: F.avg_pool2d(t["x"], (5, 33), (2, 33)), plane()),
    "very large": (lambda t: F.avg_pool2d(t["x"], (10, 66), 3, (0, 33)), of(x=(1, 2, 14, 70))()),
    "volume": (lambda t: F.avg_pool3d(t["x"], 5, 2, 2), volume()),
    "computed": (lambda t: F.avg_pool2d(t["x"].exp().sin() * 2 + t["x"], 9, 2), plane()),
    "read again": (lambda t: F.avg_pool2d(t["x"], 9, 2).softmax(-1), plane()),
    "power": (lambda t: F.lp_pool2d(t["x"].abs() + 0.1, 2.0, 9, 3), plane()),
    "largest": (lambda t: F.max_pool2d(t["x"], 9, 2, 4), plane()),
    "largest, dilated": (lambda t: F.max_pool2d(t["x"], 9, 2, 4, 2), plane()),
    "largest, half": (lambda t: F.max_pool2d(t["x"], (9, 11), 2, 4), of(x=((2, 3, 30, 33), half))()),
    "largest, line": (lambda t: F.max_pool1d(t["x"], 70, 3, 5), line()),
    "largest, volume": (lambda t: F.max_pool3d(t["x"], 5, 2, 2), volume()),
    "largest, beyond": (lambda t: F.max_pool2d(t["x"], 9, 4, 1, ceil_mode=True), plane()),
}
PLACES: dict[str, Call] = {
    "large": lambda t: F.max_pool2d(t["x"], 9, 2, 4, return_indices=True),
    "large, dilated": lambda t: F.max_pool2d(t["x"], (9, 8), 2, (4, 3), (2, 3), return_indices=True),
    "large, no padding": lambda t: F.max_pool2d(t["x"], 9, 3, return_indices=True),
    "small": lambda t: F.max_pool2d(t["x"], 3, 2, 1, return_indices=True),
    "small, dilated": lambda t: F.max_pool2d(t["x"], 5, 1, 2, 3, return_indices=True),
}


VECTORS: tuple[Vector, ...] = (
    (),
    (("vector_width", "4"), ("index_width", "32")),
    (("strip", "4"),),
    (("window_parts", "shared"),),
    (("reciprocal", "on"), ("vector_width", "4"), ("window_parts", "shared")),
    (("block_size", "64"), ("index_width", "32"), ("vector_width", "4"), ("window_parts", "shared")),
)


@pytest.mark.many(11)
@pytest.mark.parametrize(("name", "vector"), crossed(CALLS, VECTORS))
def test_right_with_and_without_vectors(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "pool")
    assert not traits_of(problem).library_calls
    check(call, generate(problem, vector).kernel.source, tensors, "checked")


@pytest.mark.many(5)
@pytest.mark.parametrize("name", PLACES)
def test_of_equal_ones_the_first_has_the_place(name: str) -> None:
    call = PLACES[name]
    tensors = {"x": few_values((2, 3, 30, 33))}
    problem = problem_of(call, tensors, "pool")
    assert not traits_of(problem).library_calls
    for parts in ("memory", "shared"):
        source = generate(problem, (("window_parts", parts),)).kernel.source
        assert ("__shared__" in source) == (parts == "shared" and "large" in name)
        check(call, source, tensors, "checked")


def test_places_in_a_volume() -> None:
    call: Call = lambda t: F.max_pool3d(t["x"], 5, 2, 2, return_indices=True)  # noqa: E731
    tensors = {"x": few_values((1, 2, 9, 10, 11))}
    source = generate(problem_of(call, tensors, "pool"), ()).kernel.source
    check(call, source, tensors, "checked")


WIDE: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "side by side": (lambda t: F.avg_pool2d(t["x"], 11), of(x=(1, 2, 24, 1201))()),
    "aligned": (
        lambda t: F.avg_pool2d(t["x"], 11, 3) * t["s"].view(2, 1, 1),
        of(x=(1, 2, 24, 1200), s=(2,))(),
    ),
    "padded": (lambda t: F.avg_pool2d(t["x"], 9, 1, 4), of(x=(1, 1, 9, 1200))()),
    "two": (lambda t: F.avg_pool2d(t["x"], 9, 2, 4) - F.max_pool2d(t["x"], 9, 2, 4), of(x=(1, 2, 12, 600))()),
}


@pytest.mark.many(13)
@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("threads", ["64", "256"])
def test_rows_longer_than_a_block_are_cut(name: str, threads: str) -> None:
    call, tensors = WIDE[name]
    problem = problem_of(call, tensors, "pool")
    vector = (("block_size", threads), ("vector_width", "4"), ("window_parts", "shared"))
    source = generate(problem, vector).kernel.source
    assert len(plan_of(source, tensors).launches) == 1
    check(call, source, tensors, "checked")


@pytest.mark.many(2)
@pytest.mark.parametrize("width", ["1", "4"])
def test_blocks_take_several_short_rows_where_there_are_many(width: str) -> None:
    call: Call = lambda t: F.avg_pool2d(t["x"], 9, 8, 1)  # noqa: E731
    tensors = of(x=(1, 343, 25, 20))()
    problem = problem_of(call, tensors, "pool")
    vector = (("block_size", "64"), ("vector_width", width), ("window_parts", "shared"))
    source = generate(problem, vector).kernel.source
    (launch,) = plan_of(source, tensors).launches
    assert launch.grid[0] == -(-343 * 3 // 2)  # the last block has a single row
    check(call, source, tensors, "checked")


def test_the_first_seeds_have_parts_in_shared_memory_and_nvrtc_takes_them() -> None:
    call, tensors = CALLS["side by side"]
    problem = problem_of(call, tensors, "pool", cases=({"s0": 16, "s1": 64, "s2": 2048, "s3": 2048},))
    cards = seed_vectors(problem, H100, 4)
    assert any(dict(card.vector or ()).get("window_parts") == "shared" for card in cards)
    for name in ("side by side", "half", "volume"):
        call, tensors = CALLS[name]
        vector = (("reciprocal", "on"), ("vector_width", "4"), ("window_parts", "shared"))
        source = generate(problem_of(call, tensors), vector).kernel.source
        report = compile_kernel(source, plan_of(source, tensors).instances)
        assert isinstance(report, CompileReport) and not report.warnings


def test_each_element_is_read_once() -> None:
    call, tensors = WIDE["side by side"]
    problem = problem_of(call, tensors, "pool")
    read = {}
    for parts in ("memory", "shared"):
        source = generate(problem, (("vector_width", "1"), ("window_parts", parts))).kernel.source
        read[parts] = run(source, tensors, "checked").report.counts
    assert read["shared"].load_bytes <= 4 * 2 * 22 * 1201 < 0.95 * read["memory"].load_bytes
    assert read["shared"].sectors < 1.25 * read["shared"].ideal_sectors


def test_what_others_read_too_waits_in_memory() -> None:
    call: Call = lambda t: (F.max_pool2d(t["x"], (9, 1)), F.max_pool2d(t["x"], 9))  # noqa: E731
    tensors = of(x=(1, 2, 20, 30))()
    problem = problem_of(call, tensors, "pool")
    source = generate(problem, (("window_parts", "shared"),)).kernel.source
    check(call, source, tensors, "checked")


def test_each_operation_apart_is_right() -> None:
    for name in ("overlapping", "largest"):
        call, tensors = CALLS[name]
        check(call, generate(problem_of(call, tensors), (("fusion", "none"),)).kernel.source, tensors)
