"""What a convolution takes: counted against torch's own, and what of it no honest kernel can go below."""

from __future__ import annotations

import pytest
import torch
from softmax_problem import PROBLEM

from workbench.model import H100, Case, Graph, OpNode, OutputSpec, Problem, Ref
from workbench.referee.clock.physics import physics_of
from workbench.referee.clock.suspicion import beyond_physics
from workbench.referee.convolution import convolution_of
from workbench.referee.least_operations import least_flops

SETTINGS = [
    # sizes, taps, stride, padding, dilation, groups
    ((7, 9), (3, 5), (1, 1), (0, 0), (1, 1), 1),
    ((7, 9), (3, 2), (2, 3), (1, 0), (1, 2), 2),
    ((8,), (1,), (3,), (0,), (1,), 1),
    ((4, 5, 6), (2, 3, 1), (1, 2, 2), (1, 1, 0), (2, 1, 1), 2),
]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("sizes", "taps", "stride", "padding", "dilation", "groups"), SETTINGS)
def test_pairs_that_meet_are_counted_as_torch_adds_them_up(
    sizes: tuple[int, ...],
    taps: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    transposed: bool,
) -> None:
    into, out = 2 * groups, 3 * groups
    x = torch.ones(2, into, *sizes)
    weight = torch.ones((into, 3) if transposed else (out, 2)).reshape(-1, 3 if transposed else 2)
    weight = weight[..., *([None] * len(taps))].expand(*weight.shape, *taps).contiguous()
    y = torch.convolution(x, weight, None, stride, padding, dilation, transposed, [0] * len(taps), groups)
    found = convolution_of(
        [tuple(x.shape), tuple(weight.shape)], tuple(y.shape), (stride, padding, dilation, transposed)
    )
    assert found.direct == int(y.sum())  # ones times ones
    assert 0 < found.least <= found.direct


def convolving(x: tuple[int, ...], weight: tuple[int, ...], y: tuple[int, ...], transposed: bool) -> Problem:
    """One float32 convolution of stride 1, with the padding that makes such a result."""
    moved = [(y[i] - x[i]) * (1 if transposed else -1) for i in range(2, len(x))]
    padding = tuple((weight[i + 2] - 1 - by) // 2 for i, by in enumerate(moved))
    ones, out = (1,) * len(padding), OutputSpec(dtype="f32", dims=y)
    node = OpNode(
        name="conv",
        op="aten.convolution.default",
        args=(Ref(ref="x"), Ref(ref="w"), None, ones, padding, ones, transposed, (0,) * len(padding), 1),
        outs=(out,),
    )
    tensor = PROBLEM.tensors[0]
    shapes = {"x": x, "w": weight}
    return PROBLEM.model_copy(
        update={
            "tensors": tuple(tensor.model_copy(update={"name": n, "dims": s}) for n, s in shapes.items()),
            "graph": Graph(nodes=(node,), outputs=(Ref(ref="conv"),)),
            "outputs": (out,),
            "symbols": (),
            "cases": (Case(label="one", sizes=()),),
        }
    )


def suspicion(problem: Problem, time_us: float) -> str:
    return beyond_physics(time_us, physics_of(problem, problem.cases[0], H100))


def test_an_honest_convolution_of_the_library_is_believed() -> None:
    # KernelBench level1/69: torch's own took 4.79 ms on an H200 and was told to be beyond the arithmetic.
    asymmetric = convolving((64, 64, 128, 256), (64, 128, 3, 5), (64, 128, 130, 260), transposed=True)
    assert least_flops(asymmetric, asymmetric.cases[0]) == 2.0 * 64 * 64 * 128 * 256 * 128 * 15
    assert suspicion(asymmetric, 4790.0) == ""
    # By FFT a kernel of 11 x 11 takes no longer than one of 3 x 3: 540 TFLOP/s, were they done one by one.
    large = convolving((64, 256, 112, 112), (256, 256, 11, 11), (64, 256, 112, 112), transposed=False)
    assert least_flops(large, large.cases[0]) / 22e-3 > 3 * 180e12 * 0.9
    assert suspicion(large, 22e3) == ""


def test_a_convolution_that_skips_its_work_is_not() -> None:
    deep = convolving((64, 256, 56, 56), (256, 256, 3, 3), (64, 256, 56, 56), transposed=False)
    copied_us = 2 * 64 * 256 * 56 * 56 * 4 / H100.dram_bytes_per_s * 1e6
    assert "faster than the arithmetic" in suspicion(deep, copied_us), "a result that was kept and copied"
    pointwise = convolving((64, 256, 56, 56), (256, 256, 1, 1), (64, 256, 56, 56), transposed=False)
    whole_us = least_flops(pointwise, pointwise.cases[0]) / H100.fp32_flops_per_s * 1e6
    assert "faster than the arithmetic" in suspicion(pointwise, whole_us / 4), "every fourth channel"
    assert suspicion(pointwise, whole_us / 2.5) == "", "three TF32 products for one in float32"
