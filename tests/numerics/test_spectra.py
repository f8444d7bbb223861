"""Fourier transforms: float32's are within their bound, what is slightly wrong is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from workbench.model import Graph, OpNode, OutputSpec, Ref
from workbench.numerics.operators import operator
from workbench.numerics.running import Running
from workbench.numerics.tracked import Tracked

TRANSFORMS = {
    "of rows": ("_fft_r2c", (12, 100), ((1,), 0, True)),
    "of rows, whole": ("_fft_r2c", (12, 64), ((1,), 1, False)),
    "of images": ("_fft_c2c", (3, 16, 24, 2), ((1, 2), 2, False)),
    "forth": ("_fft_c2c", (6, 1000, 2), ((1,), 0, True)),
    "back": ("_fft_c2r", (12, 33, 2), ((1,), 2, 64)),
    "back, odd": ("_fft_c2r", (5, 8, 17, 2), ((1, 2), 1, 33)),
}


def tracked(name: str, x: Tensor, rest: tuple[Any, ...], before: str = "") -> Tracked:
    """The transform of x, or of what an operation makes of it."""
    out = OutputSpec(dtype="f32", dims=(1,))
    first = [OpNode(name="y", op=before, args=(Ref(ref="x"),), outs=(out,))] if before else []
    args = (Ref(ref="y" if before else "x"), *rest)
    node = OpNode(name="made", op=f"aten.{name}.default", args=args, outs=(out,))
    running = Running({})
    return running.outputs(Graph(nodes=(*first, node), outputs=(Ref(ref="made"),)), {"x": x})[0]


@pytest.mark.parametrize("case", TRANSFORMS)
def test_a_transform_in_float32_is_within_its_bound_and_a_wrong_one_is_not(case: str) -> None:
    name, shape, rest = TRANSFORMS[case]
    torch.manual_seed(1)
    for x in (torch.randn(shape), torch.rand(shape) + 100, torch.randn(shape) * 1e-3):
        made = tracked(name, x, rest)
        own = operator(f"aten.{name}.default")(x, *rest)
        assert own.shape == made.value.shape
        assert ((own - made.value).abs() <= made.error).all()
        slightly_off = own + own.square().mean().sqrt() * 1e-3
        assert ((slightly_off - made.value).abs() > made.error).all()


def test_errors_of_what_is_transformed_are_passed_on() -> None:
    x = torch.randn(4, 128) * 8
    made = tracked("_fft_r2c", x, ((1,), 0, True), before="aten.sin.default")
    off = x.double().sin() * (1 + 2**-22 * torch.randint(-1, 2, x.shape))
    own = operator("aten._fft_r2c.default")(off, (1,), 0, True)
    assert ((own - made.value).abs() <= made.error).all()
    assert (made.error > tracked("_fft_r2c", x.sin(), ((1,), 0, True)).error).all()
