"""Depthwise convolutions as window sums, and windows that neighbouring results share in strips."""

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
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

half = torch.float16


def block(t: dict[str, Tensor]) -> Tensor:
    grown = F.conv2d(t["x"], t["w"], t["b"], padding=1, groups=5)
    return F.silu(grown * t["s"].view(1, 5, 1, 1)) + t["x"]


def both_pools(t: dict[str, Tensor]) -> Tensor:
    return F.max_pool2d(t["x"], 3, 1, 1) - F.avg_pool2d(t["x"], 3, 1, 1)


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "block": (block, of(x=(2, 5, 13, 11), w=(5, 1, 3, 3), b=(5,), s=(5,))()),
    "no border": (lambda t: F.conv2d(t["x"], t["w"], groups=4), of(x=(2, 4, 9, 12), w=(4, 1, 3, 5))()),
    "apart": (
        lambda t: F.conv2d(t["x"], t["w"], t["b"], stride=(2, 1), padding=(2, 3), dilation=(1, 3), groups=3),
        of(x=(1, 3, 15, 17), w=(3, 1, 5, 3), b=(3,))(),
    ),
    "two results a channel": (
        lambda t: F.conv2d(t["x"], t["w"], t["b"], padding=1, groups=3).relu(),
        of(x=(2, 3, 10, 9), w=(6, 1, 3, 3), b=(6,))(),
    ),
    "half": (
        lambda t: F.conv2d(t["x"], t["w"], padding=1, groups=4),
        of(x=((2, 4, 11, 10), half), w=((4, 1, 3, 3), half))(),
    ),
    "channels last": (
        lambda t: F.conv2d(t["x"].permute(0, 3, 1, 2), t["w"], padding=1, groups=6).contiguous(),
        of(x=(2, 9, 10, 6), w=(6, 1, 3, 3))(),
    ),
    "computed": (
        lambda t: F.conv2d(F.relu(t["x"]), t["w"], padding=1, groups=4),
        of(x=(2, 4, 9, 10), w=(4, 1, 3, 3))(),
    ),
    "volume": (
        lambda t: F.conv3d(t["x"], t["w"], padding=1, stride=(2, 1, 1), groups=2),
        of(x=(2, 2, 7, 8, 9), w=(2, 1, 3, 3, 3))(),
    ),
    "few channels a group": (
        lambda t: F.conv2d(t["x"], t["w"], t["b"], padding=1, groups=3).relu() + 1,
        of(x=(2, 6, 9, 10), w=(12, 2, 3, 3), b=(12,))(),
    ),
    "few channels of 16 bits": (
        lambda t: F.conv2d(t["x"], t["w"], padding=1, stride=(1, 2), groups=2),
        of(x=((2, 6, 9, 10), half), w=((4, 3, 3, 3), half))(),
    ),
    "pools": (both_pools, of(x=(2, 3, 12, 13))()),
    "pool of strides": (lambda t: F.max_pool2d(t["x"], 3, 2, 1), of(x=(2, 3, 15, 16))()),
}


VECTORS: tuple[Vector, ...] = (
    (("strip", "4"),),
    (("index_width", "32"), ("strip", "8")),
    (("vector_width", "2"),),
)


@pytest.mark.many(23)
@pytest.mark.parametrize(("name", "vector"), crossed(CALLS, VECTORS))
def test_right_alone_and_in_strips(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "windows")
    assert not traits_of(problem).library_calls
    source = generate(problem, vector).kernel.source
    assert ("_seen[" in source) == (vector[-1][0] == "strip")
    check(call, source, tensors, "checked")


def test_a_strip_reads_shared_rows_once() -> None:
    call, tensors = CALLS["no border"]
    problem = problem_of(call, tensors)
    loads = []
    for strip in ("off", "2", "4"):
        source = generate(problem, (("strip", strip),)).kernel.source
        sites = run(source, tensors, "checked").report.counts.sites
        loads.append(sum(site.requests for site in sites))
    assert loads[0] > 1.4 * loads[1] and loads[1] > 1.2 * loads[2]


def test_one_axis_needs_no_strips() -> None:
    call = lambda t: F.conv1d(t["x"], t["w"], padding=3, groups=6)[..., :20]  # noqa: E731
    tensors = of(x=(2, 6, 20), w=(6, 1, 4))()
    problem = problem_of(call, tensors)
    assert not traits_of(problem).library_calls and "strip" not in dict(settled(problem, (("strip", "4"),)))
    check(call, generate(problem, ()).kernel.source, tensors, "checked")


def test_a_window_that_is_computed_fixes_its_own_sizes_only() -> None:
    call = lambda t: F.conv2d(t["x"], t["w"] * 2, padding=1, groups=4)  # noqa: E731
    problem = problem_of(call, of(x=(2, 4, 9, 10), w=(4, 1, 3, 3))())
    assert not traits_of(problem).library_calls
    x, w = (spec.dims for spec in problem.tensors)
    assert isinstance(x[0], str) and isinstance(x[2], str) and w[2:] == (3, 3)


TRANSPOSED: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "plain": (
        lambda t: F.conv_transpose2d(t["x"], t["w"], t["b"], padding=1, groups=5).relu(),
        of(x=(2, 5, 9, 10), w=(5, 1, 3, 3), b=(5,))(),
    ),
    "twice as large": (
        lambda t: F.conv_transpose2d(t["x"], t["w"], stride=2, padding=1, groups=6),
        of(x=(2, 6, 9, 10), w=(6, 1, 4, 4))(),
    ),
    "odd": (
        lambda t: F.conv_transpose2d(
            t["x"], t["w"], t["b"], stride=(2, 3), padding=(1, 2), output_padding=(1, 0), groups=5
        ),
        of(x=(2, 5, 7, 8), w=(5, 1, 3, 5), b=(5,))(),
    ),
    "several results": (
        lambda t: F.conv_transpose1d(t["x"], t["w"], stride=2, groups=4) * 2,
        of(x=(2, 8, 19), w=(8, 3, 4))(),
    ),
    "half": (
        lambda t: F.conv_transpose2d(t["x"], t["w"], stride=2, groups=4),
        of(x=((2, 4, 9, 10), half), w=((4, 1, 2, 2), half))(),
    ),
    "volume": (
        lambda t: F.conv_transpose3d(t["x"], t["w"], stride=2, padding=1, groups=2),
        of(x=(1, 2, 4, 5, 6), w=(2, 1, 3, 3, 3))(),
    ),
    "computed": (
        lambda t: F.conv_transpose2d(t["x"].sin().exp() + t["x"], t["w"], stride=2, groups=4),
        of(x=(2, 4, 9, 10), w=(4, 1, 3, 3))(),
    ),
}


@pytest.mark.many(11)
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_windows_are_gathered(name: str) -> None:
    call, tensors = TRANSPOSED[name]
    problem = problem_of(call, tensors, "windows")
    assert not traits_of(problem).library_calls
    for vector in ((), (("index_width", "32"), ("vector_width", "4"))):
        check(call, generate(problem, vector).kernel.source, tensors, "checked")


def test_nothing_meets_an_infinite_weight() -> None:
    """Padding of a transposed convolution is cut off: no zero is multiplied there."""
    call, tensors = TRANSPOSED["plain"]
    weight = tensors["w"].clone()
    weight[:, :, 0, 0] = torch.inf
    tensors = {**tensors, "w": weight}
    check(call, generate(problem_of(call, tensors), ()).kernel.source, tensors, "checked")


def test_few_channels_of_a_line() -> None:
    call = lambda t: F.conv1d(t["x"], t["w"], t["b"], padding=2, dilation=2)  # noqa: E731
    tensors = of(x=(2, 2, 50), w=(3, 2, 3), b=(3,))()
    problem = problem_of(call, tensors)
    assert not traits_of(problem).library_calls
    x, w = (spec.dims for spec in problem.tensors if spec.name in "xw")
    assert isinstance(x[0], str) and isinstance(x[2], str) and x[1] == 2 and w == (3, 2, 3)
    check(call, generate(problem, ()).kernel.source, tensors, "checked")


@pytest.mark.parametrize("name", ["many channels", "images", "dilated", "large"])
def test_what_is_left_to_the_library(name: str) -> None:
    calls = {
        "many channels": (
            lambda t: F.conv2d(t["x"], t["w"], groups=2),
            of(x=(1, 10, 8, 8), w=(4, 5, 3, 3))(),
        ),
        "images": (lambda t: F.conv2d(t["x"], t["w"]), of(x=(1, 3, 8, 8), w=(4, 3, 3, 3))()),
        "dilated": (
            lambda t: F.conv_transpose2d(t["x"], t["w"], dilation=2, groups=4),
            of(x=(1, 4, 8, 8), w=(4, 1, 3, 3))(),
        ),
        "large": (lambda t: F.conv2d(t["x"], t["w"], groups=4), of(x=(1, 4, 9, 9), w=(4, 1, 9, 8))()),
    }
    call, tensors = calls[name]
    assert traits_of(problem_of(call, tensors)).library_calls == ("aten.convolution.default",)


@pytest.mark.slow
def test_the_first_seeds_have_strips_and_nvrtc_takes_them() -> None:
    call, tensors = CALLS["block"]
    problem = problem_of(call, tensors, cases=({"s0": 32, "s1": 112, "s2": 112},))
    cards = seed_vectors(problem, H100, 6)
    assert any(dict(card.vector or ()).get("strip", "off") != "off" for card in cards[:4])
    for name in ("half", "volume", "pools"):
        call, tensors = CALLS[name]
        source = generate(problem_of(call, tensors), (("strip", "4"),)).kernel.source
        report = compile_kernel(source, plan_of(source, tensors).instances)
        assert isinstance(report, CompileReport) and not report.warnings
