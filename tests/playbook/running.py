"""Runs generated kernels on the emulator and compares them with float64, for the tests."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.playbook.problems import Call
from workbench.emulator.build import build
from workbench.emulator.execute import Execution, execute
from workbench.emulator.values import Mode, Options
from workbench.model import H100, TensorMeta
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.plan.steps import Plan
from workbench.problem.translate import DTYPES
from workbench.referee.librarymeta import library_meta

_EPS = {torch.float16: 2**-11, torch.bfloat16: 2**-8, torch.float32: 2**-24, torch.float64: 2**-50}


def metas_of(tensors: Mapping[str, Tensor]) -> dict[str, TensorMeta]:
    return {
        name: TensorMeta(dtype=DTYPES[t.dtype], shape=tuple(t.shape), strides=tuple(t.stride()))
        for name, t in tensors.items()
    }


def plan_of(source: str, tensors: Mapping[str, Tensor]) -> Plan:
    return interpret(parse(source), metas_of(tensors), H100, library_meta)


def run(
    source: str, tensors: Mapping[str, Tensor], mode: Mode = "plain", *, races: bool = False
) -> Execution:
    plan = plan_of(source, tensors)
    options = Options(case="test", races=races)
    return execute(plan, build(source, plan.instances, mode), dict(tensors), options)


def reference(call: Call, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    """The reference in float64."""
    wide = {name: t.double() if t.is_floating_point() else t for name, t in tensors.items()}
    with torch.no_grad():
        result = call(wide)
    return result if isinstance(result, tuple) else (result,)


def check(call: Call, source: str, tensors: Mapping[str, Tensor], mode: Mode = "plain") -> Execution:
    """Assert that a kernel computes what the reference does, without hazards."""
    execution = run(source, tensors, mode)
    assert not execution.report.hazards, execution.report.hazards[0].message
    with torch.no_grad():
        eager = call(dict(tensors))
    eager = eager if isinstance(eager, tuple) else (eager,)
    expected = reference(call, tensors)
    assert len(execution.outputs) == len(expected)
    for got, want, like in zip(execution.outputs, expected, eager, strict=True):
        assert got.dtype == like.dtype and got.shape == like.shape
        _compare(got, want)
    return execution


def _compare(got: Tensor, want: Tensor) -> None:
    if not got.is_floating_point():
        assert torch.equal(got, want.to(got.dtype))
        return
    finite = torch.isfinite(want)
    assert torch.equal(finite, torch.isfinite(got.double())), "NaN or infinity in other places"
    error = (got.double() - want)[finite].abs()
    sizes = want[finite].abs()
    sizes = sizes[sizes > 0]  # a transposed convolution may leave most places untouched
    scale = sizes.mean().clamp(min=0.25) if sizes.numel() else torch.tensor(1.0)
    allowed = 64 * _EPS[got.dtype] * (want[finite].abs() + scale)
    worst = (error / allowed).max().item() if error.numel() else 0.0
    assert worst <= 1, f"{worst:.3g} times the allowed error"
