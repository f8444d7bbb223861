"""Kernels whose blocks wait for one another are right whichever begins first, with room for few too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import metas_of, reference
from tests.playbook.test_lookback import ON
from tests.playbook.test_plane_turns import IN_TURNS, large, responses, tensors_of
from tests.playbook.test_told_parts import TOLD
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, Target
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.playbook.generate import generate
from workbench.referee.librarymeta import library_meta
from workbench.referee.protocol import LEAST_ROOM
from workbench.referee.trial import OTHER_ORDERS

A_THREAD_A_ROW = (
    ("block_size", "256"),
    ("fusion", "all"),
    ("row_totals", "told"),
    ("threads_per_row", "thread"),
)
ONE_SM = H100.model_copy(update={"sm_count": 1})


def running_sum(t: dict[str, Tensor]) -> Tensor:
    return t["x"].cumsum(1)


def squares(t: dict[str, Tensor]) -> Tensor:
    return (t["x"] - 1).square().mean()


def sixteen_told(t: dict[str, Tensor]) -> Tensor:
    """Half a warp polls for sixteen blocks until its log is full, and leaves the turn to them."""
    return (t["x"].amin(2) - 1).square().mean()


def log_sum(t: dict[str, Tensor]) -> Tensor:
    return t["x"].logsumexp(1)


def written(call: Call) -> tuple[str, dict[str, Tensor]]:
    torch.manual_seed(1)
    if call is responses:
        source = generate(large(call, 32, 90, 60, 64), IN_TURNS).kernel.source
        return source, tensors_of((3, 9, 8, 40))
    tensors = {
        "x": torch.randn(
            *{running_sum: (2, 9000), squares: (9000,), log_sum: (3, 9000), sixteen_told: (2, 2, 2, 1025)}[
                call
            ]
        )
        / 8
    }
    vector = {running_sum: ON, sixteen_told: A_THREAD_A_ROW}.get(call, TOLD)
    return generate(problem_of(call, tensors), vector).kernel.source, tensors


@pytest.mark.many(11)
@pytest.mark.parametrize("target", [H100, ONE_SM], ids=["H100", "one multiprocessor"])
@pytest.mark.parametrize("call", [running_sum, squares, sixteen_told, log_sum, responses])
def test_right_whichever_block_begins_first(call: Call, target: Target) -> None:
    source, tensors = written(call)
    plan = interpret(parse(source), metas_of(tensors), target, library_meta)
    built = build(source, plan.instances, "checked")
    for order in OTHER_ORDERS:
        options = Options(
            case="test", races=True, order=order, resident=max(target.sm_count, LEAST_ROOM), draw=3
        )
        done = execute(plan, built, tensors, options)
        assert not done.report.hazards, done.report.hazards[0].message
        (want,) = reference(call, tensors)
        assert torch.allclose(done.outputs[0].double(), want, rtol=4e-3, atol=2e-4)
