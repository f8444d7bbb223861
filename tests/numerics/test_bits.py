"""Bits that are read as numbers: exact where they are an input's, and no guess where they were rounded."""

from __future__ import annotations

import known_ops as ops
import pytest
import torch
from torch import Tensor

from workbench.model import Sampler
from workbench.numerics.bounds import OutputBound, bounds
from workbench.numerics.compare import compare
from workbench.numerics.conditioning import Oracle
from workbench.numerics.dtypes import NAMES
from workbench.numerics.inputs import draw
from workbench.numerics.kinds import KINDS, InputKind
from workbench.numerics.movement import bits_as
from workbench.numerics.tracked import exact

WHOLES = Sampler(kind="integers", low=0, high=1 << 30)


def stochastic(scale: float = 1.0) -> ops.Op:
    """Float32 to bfloat16, up or down as random bits say; a scale other than 1 rounds before."""

    def call(x: Tensor, noise: Tensor) -> Tensor:
        bits = (x * scale if scale != 1 else x).view(torch.int32) + (noise & 0xFFFF)
        return (bits & -65536).view(torch.float32).to(torch.bfloat16)

    scaled = (ops.node("scaled", "aten.mul.Tensor", ops.ref("x"), scale),) if scale != 1 else ()
    nodes = (
        *scaled,
        ops.node("bits", "aten.view.dtype", ops.ref("scaled" if scaled else "x"), "i32", dtype="i32"),
        ops.node("low", "aten.bitwise_and.Scalar", ops.ref("noise"), 0xFFFF, dtype="i32"),
        ops.node("sum", "aten.add.Tensor", ops.ref("bits"), ops.ref("low"), dtype="i32"),
        ops.node("high", "aten.bitwise_and.Scalar", ops.ref("sum"), -65536, dtype="i32"),
        ops.node("back", "aten.view.dtype", ops.ref("high"), "f32"),
        ops.node("y", "aten._to_copy.default", ops.ref("back"), dtype="bf16"),
    )
    shapes = {"x": (64, 100), "noise": (64, 100)}
    return ops.make(call, shapes, nodes, out="bf16", noise=WHOLES, noise_dtype="i32")


def bounded(op: ops.Op, tensors: dict[str, Tensor]) -> OutputBound:
    """No float64 oracle runs such a reference: it is held against its own precision."""
    native = op.call(**tensors)
    return bounds(op.problem, {}, tensors, Oracle((native.double(),)), lambda: (native,))[0]


@pytest.mark.parametrize("kind", KINDS)
def test_bits_of_an_input_are_exact(kind: InputKind) -> None:
    op = stochastic()
    tensors = draw(op.problem, op.problem.cases[0], kind, 0)
    bound = bounded(op, tensors)
    assert bound.basis == "running error of the graph"
    assert compare(op.call(**tensors), bound).max_ratio <= 1
    if kind not in ("zero-one", "special values"):  # numbers that bfloat16 has are not rounded
        blind = tensors["x"].to(torch.bfloat16)
        assert compare(blind, bound).max_ratio > 1, "rounded to nearest, whatever the noise says"
        other = op.call(**{**tensors, "noise": tensors["noise"] // 2})
        assert compare(other, bound).max_ratio > 1


def test_bits_of_a_rounded_value_are_not_guessed() -> None:
    op = stochastic(scale=0.3)
    tensors = draw(op.problem, op.problem.cases[0], "normal", 0)
    bound = bounded(op, tensors)
    assert "could not be interpreted" in bound.basis
    assert compare(op.call(**tensors), bound).max_ratio <= 1
    assert compare((tensors["x"] * 0.3).to(torch.bfloat16), bound).max_ratio > 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_what_comes_back_is_what_was_given(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, -0.0, 1.0, -1.5, torch.inf, -torch.inf, torch.nan, 1e-6], dtype=dtype)
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    bits = bits_as(exact(x, NAMES[dtype]), NAMES[whole])
    assert bits.is_exact and torch.equal(bits.value, x.view(whole))
    back = bits_as(bits, NAMES[dtype])
    assert torch.equal(back.value.nan_to_num(7), x.double().nan_to_num(7)) and back.is_exact
    bytes_ = bits_as(exact(x, NAMES[dtype]), "u8")
    assert torch.equal(bytes_.value, x.view(torch.uint8))
