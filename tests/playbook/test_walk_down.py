"""Threads that walk down their plane: windows taken a row at a time, against PyTorch on the emulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of, run
from workbench.compile import compile_kernel
from workbench.model import H100, CompileReport, Problem, Vector
from workbench.playbook.analysis.arithmetic import multiply_adds
from workbench.playbook.analysis.row_cuts import RowCut, cut_of
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel
from workbench.playbook.rules.moves import moves, seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of, traits_of

half, bf16 = torch.float16, torch.bfloat16


def conv(groups: int, **how: Any) -> Callable[[dict[str, Tensor]], Tensor]:
    return lambda t: F.conv2d(t["x"], t["w"], groups=groups, **how)


def few_values(shape: tuple[int, ...]) -> Tensor:
    """Whole numbers, of which many are equal, and some that are none."""
    torch.manual_seed(1)
    x = torch.randint(-3, 4, shape).float()
    x.view(-1)[::13] = torch.nan
    x.view(-1)[::7] = -torch.inf
    return x


def both_pools(t: dict[str, Tensor]) -> Tensor:
    return F.max_pool2d(t["x"], 3, 1, 1) - F.avg_pool2d(t["x"], 5, 1, 2)


def block(t: dict[str, Tensor]) -> Tensor:
    grown = F.conv2d(t["x"], t["w"], t["b"], padding=3, groups=5)
    return F.silu(grown * t["s"].view(1, 5, 1, 1)) + t["x"]


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "block": (block, of(x=(2, 5, 13, 11), w=(5, 1, 7, 7), b=(5,), s=(5,))()),
    "whole vectors": (conv(3, padding=3), of(x=(2, 3, 18, 16), w=(3, 1, 7, 7))()),
    "half of a vector": (conv(3, padding=1), of(x=(2, 3, 10, 14), w=(3, 1, 3, 3))()),
    "no border": (conv(4), of(x=(2, 4, 9, 12), w=(4, 1, 3, 5))()),
    "narrower than the window": (conv(3, padding=3), of(x=(2, 3, 4, 3), w=(3, 1, 7, 7))()),
    "one row": (conv(3, padding=(2, 1)), of(x=(2, 3, 1, 8), w=(3, 1, 5, 3))()),
    "wide border": (conv(2, padding=(4, 2)), of(x=(1, 2, 6, 8), w=(2, 1, 5, 3))()),
    "apart": (
        conv(3, stride=(2, 1), padding=(2, 3), dilation=(1, 3)),
        of(x=(1, 3, 15, 17), w=(3, 1, 5, 3))(),
    ),
    "dilated down": (conv(3, padding=2, dilation=(2, 1)), of(x=(1, 3, 12, 16), w=(3, 1, 3, 3))()),
    "strides": (conv(3, stride=2, padding=1), of(x=(2, 3, 17, 16), w=(3, 1, 3, 3))()),
    "long strides": (conv(2, stride=3, padding=3), of(x=(2, 2, 20, 21), w=(2, 1, 7, 7))()),
    "two results a channel": (conv(3, padding=1), of(x=(2, 3, 10, 9), w=(6, 1, 3, 3))()),
    "half precision": (conv(4, padding=1), of(x=((2, 4, 11, 16), half), w=((4, 1, 3, 3), half))()),
    "bfloat16": (conv(4, padding=2), of(x=((2, 4, 11, 10), bf16), w=((4, 1, 5, 5), bf16))()),
    "double": (conv(2, padding=1), of(x=((2, 2, 6, 8), torch.float64), w=((2, 1, 3, 3), torch.float64))()),
    "few channels a group": (conv(3, padding=1), of(x=(2, 6, 9, 12), w=(12, 2, 3, 3))()),
    "computed": (
        lambda t: F.conv2d(F.relu(t["x"]) + 1, t["w"], padding=1, groups=4),
        of(x=(2, 4, 9, 12), w=(4, 1, 3, 3))(),
    ),
    "begins anywhere": (
        lambda t: F.conv2d(t["x"][..., 1:], t["w"], padding=1, groups=4),
        of(x=(2, 4, 9, 13), w=(4, 1, 3, 3))(),
    ),
    "pools": (both_pools, of(x=(2, 3, 12, 13))()),
    "largest": (lambda t: F.max_pool2d(t["x"], 3, 1, 1), {"x": few_values((2, 3, 14, 16))}),
    "largest, strides": (lambda t: F.max_pool2d(t["x"], (5, 3), 2, 1), {"x": few_values((2, 3, 15, 16))}),
    "padding left out": (
        lambda t: F.avg_pool2d(t["x"], 3, 1, 1, count_include_pad=False),
        of(x=(2, 3, 10, 11))(),
    ),
    "large": (lambda t: F.avg_pool2d(t["x"], 11, 1, 5), of(x=(1, 2, 20, 24))()),
}
VECTORS: tuple[Vector, ...] = (
    (("walk_down", "4"),),
    (("index_width", "32"), ("walk_down", "2"), ("walk_rows", "8")),
    (("index_width", "32"), ("loads_in_flight", "2"), ("stores", "streamed"), ("walk_down", "4")),
    (("loads_in_flight", "4"), ("walk_down", "8"), ("walk_rows", "8")),
    (("block_size", "64"), ("walk_down", "1")),
)


@pytest.mark.many(41)
@pytest.mark.parametrize(("name", "vector"), crossed(CALLS, VECTORS))
def test_right_at_awkward_shapes(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "windows")
    assert traits_of(problem).walks
    source = generate(problem, vector).kernel.source
    assert "const auto take" in source
    check(call, source, tensors, "checked")


@pytest.mark.many(5)
@pytest.mark.parametrize(("padding", "width"), crossed(range(5), (7, 8)))
def test_every_padding(padding: int, width: int) -> None:
    """Windows that reach beyond either side, up to those that lie outside but for one row."""
    call = conv(2, padding=padding)
    tensors = of(x=(1, 2, 9, width), w=(2, 1, 5, 5))()
    problem = problem_of(call, tensors, "windows")
    check(call, generate(problem, VECTORS[0]).kernel.source, tensors, "checked")


def test_what_is_not_a_number_stays_in_its_windows() -> None:
    call, tensors = CALLS["whole vectors"]
    x = tensors["x"].clone()
    x[0, 0, 0, 0], x[0, 1, 9, 7], x[1, 2, 17, 15] = torch.nan, torch.inf, -torch.inf
    tensors = {**tensors, "x": x}
    check(call, generate(problem_of(call, tensors), VECTORS[0]).kernel.source, tensors, "checked")


def cut(problem: Problem) -> RowCut | None:
    program = program_of(problem, fuse=True)
    kernel = next(step for step in program.steps if isinstance(step, Kernel))
    return cut_of(kernel, program.stencils)


def test_what_waits_from_row_to_row() -> None:
    """One total for each row of a window but the last; two where two pools share the walk."""
    counts = {"whole vectors": [1] * 6, "pools": [1] + [2] * 3, "strides": [1], "dilated down": [1] * 4}
    for name, waiting in counts.items():
        found = cut(problem_of(*CALLS[name]))
        assert found is not None and [len(parts) for parts in found.waiting] == waiting, name


@pytest.mark.many(5)
@pytest.mark.parametrize("name", ["volume", "row-major on demand", "one axis", "side by side"])
def test_what_is_not_walked(name: str) -> None:
    calls: dict[str, tuple[Call, dict[str, Tensor]]] = {
        "volume": (
            lambda t: F.conv3d(t["x"], t["w"], padding=1, groups=2),
            of(x=(2, 2, 7, 8, 9), w=(2, 1, 3, 3, 3))(),
        ),
        "row-major on demand": (
            lambda t: F.conv2d(t["x"].permute(0, 3, 1, 2), t["w"], padding=1, groups=6).contiguous(),
            of(x=(2, 9, 10, 6), w=(6, 1, 3, 3))(),
        ),
        "one axis": (
            lambda t: F.conv1d(t["x"], t["w"], padding=3, groups=6),
            of(x=(2, 6, 20), w=(6, 1, 4))(),
        ),
        "side by side": (lambda t: F.avg_pool2d(t["x"], 2), of(x=(2, 3, 8, 8))()),
    }
    call, tensors = calls[name]
    problem = problem_of(call, tensors)
    assert cut(problem) is None and "walk_down" not in dict(settled(problem, VECTORS[0]))
    check(call, generate(problem, VECTORS[0]).kernel.source, tensors, "checked")


def test_strips_are_left_to_what_cannot_walk() -> None:
    call, tensors = CALLS["block"]
    problem = problem_of(call, tensors)
    assert dict(settled(problem, (("strip", "8"),)))["strip"] == "8"
    walking = dict(settled(problem, (("strip", "8"), ("walk_down", "4"))))
    assert "strip" not in walking and walking["walk_rows"] == "32"


def test_a_row_is_read_once_in_vectors() -> None:
    call, tensors = CALLS["whole vectors"]
    problem = problem_of(call, tensors)
    requests = {}
    for vector in ((("strip", "8"),), (("walk_down", "1"),), (("walk_down", "4"),)):
        counts = run(generate(problem, vector).kernel.source, tensors, "checked").report.counts
        assert counts is not None
        requests[vector[0]] = sum(int(site.requests) for site in counts.sites)
    strips, columns, vectors = requests.values()
    assert strips > 2 * vectors and columns > 2 * vectors


def test_pieces_begin_with_rows_of_the_piece_above() -> None:
    """Planes of 40 rows in pieces of 14, 14 and 12: what is made where they meet is right."""
    call = conv(2, padding=2)
    tensors = of(x=(1, 2, 40, 8), w=(2, 1, 5, 5))()
    problem = problem_of(call, tensors)
    source = generate(problem, (("block_size", "64"), ("walk_down", "1"), ("walk_rows", "16"))).kernel.source
    (launch,) = plan_of(source, tensors).launches
    planes, pieces, columns = 2, 3, 8
    assert launch.grid == (-(-planes * pieces * columns // 64), 1, 1)
    check(call, source, tensors, "checked")


@pytest.mark.parametrize("vector", [(("walk_down", "4"),), (("strip", "4"),)])
def test_planes_that_are_rows(vector: Vector) -> None:
    """Sizes of a matrix are macros that are called ROWS and COLS."""
    call = lambda t: F.avg_pool2d(t["x"].view(-1, 1, 12, t["x"].shape[1] // 12), 9, 1, 4)  # noqa: E731
    tensors = of(x=(5, 192))()
    source = generate(problem_of(call, tensors), vector).kernel.source
    assert '"ROWS"' in source
    check(call, source, tensors, "checked")


def test_kernels_that_share_a_launch() -> None:
    call = lambda t: (conv(3, padding=1)(t), F.max_pool2d(t["x"], 3, 1, 1) * 2)  # noqa: E731
    tensors = of(x=(2, 3, 10, 12), w=(3, 1, 3, 3))()
    problem = problem_of(call, tensors)
    vector = (("launches", "beside"), ("walk_down", "4"))
    check(call, generate(problem, vector).kernel.source, tensors, "checked")


def test_the_model_walks_where_arithmetic_counts() -> None:
    call, tensors = CALLS["block"]
    problem = problem_of(call, tensors, cases=({"s0": 1280, "s1": 56, "s2": 56},))
    problem = problem.model_copy(update={"cases": problem.cases[1:]})
    sizes = problem.cases[0].size_map
    times = [
        estimate(problem, settled(problem, (*vector, ("index_width", "32"))), H100, sizes).us
        for vector in ((("walk_down", "4"), ("walk_rows", "64")), (("strip", "8"),), ())
    ]
    assert times == sorted(times) and times[1] > 1.5 * times[0]
    best = max(seed_vectors(problem, H100, 6), key=lambda card: card.predicted_factor)
    assert dict(best.vector or ()).get("walk_down", "off") != "off"
    proposed = moves(problem, settled(problem, (("strip", "8"),)), None, H100)
    assert proposed[0].technique == "walk_down"


def test_products_that_are_added_are_one_instruction() -> None:
    problem = problem_of(*CALLS["no border"])
    program = program_of(problem, fuse=True)
    (kernel,) = (step for step in program.steps if isinstance(step, Kernel))
    # 15 products: the first addition takes in one of its two.
    assert multiply_adds([store.value for store in kernel.stores]) == 14


@pytest.mark.many(5)
@pytest.mark.parametrize(
    ("name", "vector"), crossed(["block", "half precision", "pools", "strides", "computed"], VECTORS[:3])
)
def test_nvrtc_takes_them(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    source = generate(problem_of(call, tensors, "windows"), vector).kernel.source
    report = compile_kernel(source, plan_of(source, tensors).instances)
    assert isinstance(report, CompileReport) and not report.warnings
    assert all(not kernel.spill_store_bytes for kernel in report.kernels)
