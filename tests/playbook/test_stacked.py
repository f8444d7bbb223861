"""Scans of rows that lie side by side: right at awkward sizes and in any order of blocks, the same each time."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of, reference
from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, CompileReport, Vector
from workbench.playbook.estimate import predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.moves import seed_vectors
from workbench.playbook.techniques import settled

pytestmark = pytest.mark.sweep

SMALL: Vector = (("block_size", "64"), ("scan_tile", "4"))
PIECES: Vector = (*SMALL, ("scan_by", "pieces"), ("vector_width", "4"))
BUNDLE: Vector = (*SMALL, ("scan_by", "bundle"), ("vector_width", "4"))
TURNS = (Options(case="races", races=True), Options(case="reverse", reverse=True))
CALLS: dict[str, tuple[Call, torch.dtype]] = {
    "sum": (lambda t: t["x"].cumsum(0), torch.float32),
    "half": (lambda t: t["x"].cumsum(0), torch.float16),
    "product": (lambda t: (t["x"] / 99 + 1).cumprod(0), torch.bfloat16),
    "exclusive": (lambda t: t["x"].cumsum(0) - t["x"], torch.float32),
    "back": (lambda t: t["x"].flip(0).cumsum(0).flip(0) * t["x"], torch.float32),
    "largest": (lambda t: t["x"].cummax(0).values, torch.bfloat16),
    "place": (lambda t: t["x"].cummin(0).indices, torch.float32),
    "logarithm": (lambda t: t["x"].logcumsumexp(0), torch.float32),
    "whole_numbers": (lambda t: (t["x"] > 0).cumsum(0), torch.float32),
    "double": (lambda t: t["x"].cumsum(0), torch.float64),
    "double_place": (lambda t: t["x"].cummax(0).indices, torch.float64),
    "with_a_tail": (lambda t: torch.tanh(t["x"].cumsum(0) + t["x"][0]) * t["x"], torch.float32),
}


def columns(shape: tuple[int, ...], dtype: torch.dtype) -> dict[str, Tensor]:
    torch.manual_seed(sum(shape))
    return {"x": (torch.randn(shape) / 8).to(dtype)}


@pytest.mark.parametrize("vector", [PIECES, BUNDLE], ids=["pieces", "bundle"])
@pytest.mark.parametrize("name", CALLS)
def test_right_whoever_comes_first(name: str, vector: Vector) -> None:
    call, dtype = CALLS[name]
    source = generate(problem_of(call, columns((300, 40), dtype)), vector).kernel.source
    for shape in ((300, 40), (97, 37), (1031, 3), (5, 1), (1, 70)):
        tensors = columns(shape, dtype)
        plan = plan_of(source, tensors)
        built = build(source, plan.instances, "checked")
        results = []
        for options in TURNS:
            done = execute(plan, built, tensors, options)
            assert not done.report.hazards, done.report.hazards[0].message
            assert not done.report.kept, "what the pieces told is forgotten"
            want = reference(call, tensors)[0]
            assert torch.allclose(done.outputs[0].double(), want.double(), rtol=4e-3, atol=2e-4)
            results.append(done.outputs[0])
        assert torch.equal(*results), "the same totals are joined in the same order"
