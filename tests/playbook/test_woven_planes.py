"""Planes whose elements lie side by side in the result: read as vectors, woven, written as vectors."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from workbench.compile import compile_kernel
from workbench.model import H100, CompileReport, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import settled

Tensors = dict[str, Tensor]
FOUR: Vector = (("vector_width", "4"),)


def last(t: Tensors) -> Tensor:
    return t["x"].permute(0, 2, 3, 1).contiguous() * 2


def patches(t: Tensors) -> Tensor:
    n, c, h, w = t["x"].shape
    return t["x"].reshape(n, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(n, -1, 16 * c)


def scaled(t: Tensors) -> Tensor:
    """A value of each plane, one of all, and a tensor that lies as the result does."""
    return ((t["x"].permute(0, 2, 3, 1) - t["mean"]) * t["one"] + t["y"]).contiguous()


def two(t: Tensors) -> Tensor:
    """Two tensors in planes."""
    return (t["x"] * t["z"]).permute(0, 2, 3, 1).contiguous()


def images(channels: int, height: int, width: int, dtype: torch.dtype = torch.float32) -> Tensors:
    shape = (2, channels, height, width)
    found = {"x": torch.randn(shape), "z": torch.randn(shape), "y": torch.randn(2, height, width, channels)}
    found |= {"mean": torch.randn(channels), "one": torch.randn(1)}
    return {name: tensor.to(dtype) for name, tensor in found.items()}


@pytest.mark.many(23)
@pytest.mark.parametrize("call", [last, patches, scaled, two])
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("more", [(("index_width", "32"),), (("stream_hints", "on"), ("block_size", "64"))])
def test_whole_vectors_of_planes_and_of_results(call: Call, channels: int, more: Vector) -> None:
    tensors = images(channels, 8, 12)
    source = generate(problem_of(call, tensors), (*FOUR, *more)).kernel.source
    assert "at[k / CHANNELS]" in source and "(i + k)" not in source
    execution = check(call, source, tensors, "checked")
    assert execution.report.hazards == ()


@pytest.mark.parametrize(
    ("channels", "height", "width"), [(3, 8, 16), (3, 4, 6), (3, 5, 7), (7, 3, 5), (1, 4, 4)]
)
def test_other_shapes_take_the_width_they_allow(channels: int, height: int, width: int) -> None:
    """So many planes as were not declared, and rows that no vector divides."""
    source = generate(problem_of(last, images(3, 8, 12)), FOUR).kernel.source
    check(last, source, images(channels, height, width), "checked")


@pytest.mark.many(2)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_elements_by_eight(dtype: torch.dtype) -> None:
    tensors = images(3, 4, 16, dtype)
    source = generate(problem_of(last, tensors), (("vector_width", "8"),)).kernel.source
    assert "at[k / CHANNELS]" in source
    check(last, source, tensors, "checked")


def flipped(t: Tensors) -> Tensor:
    """Planes from the last to the first."""
    return t["x"].flip(1).permute(0, 2, 3, 1).contiguous()


def looked_up(t: Tensors) -> Tensor:
    return t["x"][torch.arange(1, -1, -1)].permute(0, 2, 3, 1).contiguous()


@pytest.mark.parametrize(("call", "channels"), [(flipped, 3), (looked_up, 3), (last, 5), (last, 16)])
def test_what_is_no_weave_of_few_planes_stays_as_it_was(call: Call, channels: int) -> None:
    tensors = images(channels, 4, 8)
    source = generate(problem_of(call, tensors), FOUR).kernel.source
    assert "at[k / CHANNELS]" not in source
    check(call, source, tensors)


def test_it_takes_few_registers_and_is_expected_to_gain() -> None:
    tensors = {"x": torch.empty(64, 3, 224, 224)}
    problem = problem_of(patches, tensors)
    source = generate(problem, FOUR).kernel.source
    report = compile_kernel(source, plan_of(source, tensors).instances)
    assert isinstance(report, CompileReport)
    assert not report.kernels[0].spill_store_bytes and report.kernels[0].registers <= 40
    sizes = problem.cases[0].size_map
    woven, each = (settled(problem, (*FOUR, ("loads_in_flight", items))) for items in ("1", "2"))
    assert estimate(problem, woven, H100, sizes).us < estimate(problem, each, H100, sizes).us
