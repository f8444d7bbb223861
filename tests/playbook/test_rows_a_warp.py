"""Two rows a warp, sixteen lanes each: short rows beside longer ones, and warps that stride over rows."""

from __future__ import annotations

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import plan_of, reference
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import Vector
from workbench.playbook.generate import generate

_TWO: Vector = (
    ("block_size", "64"),
    ("rows_a_warp", "2"),
    ("threads_per_row", "warp"),
    ("vector_width", "4"),
)
_JOINT: Vector = (("single_pass", "on"), ("row_totals", "last"))


def _moments(t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    mean = t["x"].mean(1, keepdim=True)
    return mean.squeeze(1), (t["x"] - mean).square().mean(1).sqrt()


def _loss(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(t["x"], t["x"].softmax(1))


_CALLS: dict[str, Call] = {
    "argmax": lambda t: t["x"].argmax(1),
    "logsumexp": lambda t: t["x"].logsumexp(1),
    "softmax": lambda t: t["x"].softmax(1),
    "moments": _moments,
    "loss": _loss,
}


@pytest.mark.many(6)
@pytest.mark.parametrize(
    ("name", "rows", "columns", "more"),
    [
        ("argmax", 3, 131, ()),  # odd rows, one more than fills a warp
        ("logsumexp", 5, 131, (("row_cache", "registers"),)),
        ("softmax", 9, 130, (("persistent_grid", "on"), ("row_cache", "shared"))),
        ("moments", 9, 128, (("single_pass", "on"),)),
        ("loss", 37, 128, _JOINT),
        ("loss", 4801, 5, _JOINT),  # warps stride over rows, and the last has one
    ],
)
def test_halves_of_a_warp_do_not_meet(name: str, rows: int, columns: int, more: Vector) -> None:
    tensors = {"x": torch.randn(rows, columns)}
    source = generate(problem_of(_CALLS[name], tensors), (*_TWO, *more)).kernel.source
    assert "16 lanes a row, 2 rows a warp" in source and ("has_row" in source) is (name == "loss")
    plan = plan_of(source, tensors)
    built = build(source, plan.instances, "checked")
    for options in (Options(case="races", races=True), Options(case="reverse", reverse=True)):
        done = execute(plan, built, tensors, options)
        assert not done.report.hazards, done.report.hazards[0].message
        for got, want in zip(done.outputs, reference(_CALLS[name], tensors), strict=True):
            assert torch.allclose(got.double(), want.double(), rtol=1e-4, atol=1e-5)
