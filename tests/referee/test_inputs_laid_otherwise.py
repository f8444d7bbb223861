"""Inputs that lie otherwise than declared: in both lanes, with what is told and what is remembered."""

from __future__ import annotations

import pytest
import torch
from softmax_problem import PROBLEM, RIGHT, case
from test_gpu_trial import SMALL, Cpu
from torch import Tensor

from workbench.model import H100, Evaluation, Kernel, Layout, Mismatch, Passed, Problem
from workbench.plan.parse import parse
from workbench.referee.gpu_protocol import CheckRequest
from workbench.referee.gpu_trial import checked
from workbench.referee.judge import judge
from workbench.referee.layouts import plans_laid_otherwise
from workbench.referee.options import JudgeOptions
from workbench.referee.probing import Taken
from workbench.referee.protocol import Trial

ASKS_NOTHING = RIGHT.replace(" and x.is_contiguous", "")
FEW = PROBLEM.model_copy(update={"proofs": (case(3, 7),)})
BY_STRIDES = """/* plan
def plan(x):
    rows, cols = x.shape
    y = empty(x.shape, f32)
    launch("softmax", grid=rows, block=1, args=[x, y, cols, x.strides[0], x.strides[1]])
    return y
*/
__global__ void softmax(const float* x, float* y, int cols, int row, int step) {
    const float* mine = x + blockIdx.x * row;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; ++i) top = isnan(mine[i * step]) ? mine[i * step] : fmaxf(top, mine[i * step]);
    for (int i = 0; i < cols; ++i) sum += expf(mine[i * step] - top);
    for (int i = 0; i < cols; ++i) y[blockIdx.x * cols + i] = expf(mine[i * step] - top) / sum;
}
"""
TRANSPOSED = (Layout(tensor="x", order=(1, 0)),)
EVERY_SECOND = (Layout(tensor="x", order=(0, 1), gaps=(1,)),)
ROWS_APART = (Layout(tensor="x", order=(0, 1), gaps=(0,)),)


def judged(source: str, problem: Problem = FEW) -> Evaluation:
    return judge(problem, Kernel(source=source), H100, JudgeOptions(), lambda stage: None)


def test_a_kernel_that_takes_every_input_for_row_major_is_wrong() -> None:
    outcome = judged(ASKS_NOTHING).outcome
    assert isinstance(outcome, Mismatch)
    assert outcome.case.startswith("3x7, x ")
    assert outcome.message.startswith("x has strides (")
    assert "write require(x.is_contiguous, " in outcome.message


def test_a_kernel_that_reads_by_strides_passes_and_what_was_tried_is_kept() -> None:
    outcome = judged(BY_STRIDES).outcome
    assert isinstance(outcome, Passed)
    assert set(outcome.layouts) == {TRANSPOSED, EVERY_SECOND, ROWS_APART}


def test_a_reference_that_looks_at_strides_says_nothing_of_other_layouts() -> None:
    source = PROBLEM.source.replace(
        "    return", "    x = x.as_strided(x.shape, (x.shape[1], 1))\n    return"
    )
    outcome = judged(BY_STRIDES, FEW.model_copy(update={"source": source})).outcome
    assert isinstance(outcome, Passed) and not outcome.layouts


def row_major(x: Tensor) -> Tensor:
    return x.as_strided(x.shape, (x.shape[1], 1)).softmax(1)


@pytest.mark.parametrize("right", [True, False])
def test_the_lane_of_the_gpu_tries_the_same(right: bool) -> None:
    plans = plans_laid_otherwise(SMALL, parse(ASKS_NOTHING), [Taken(case(3, 7), ())], H100)
    assert [one.label for one in plans] == [
        "3x7, x transposed", "3x7, x of every second element", "3x7, x with rows apart"
    ]  # fmt: skip
    trials = [Trial(case=one, plan=plan, once=True, probe=True) for one, plan in plans.items()]
    request = CheckRequest(
        problem=SMALL, trials=tuple(trials), images=(), options=JudgeOptions(kinds=("normal",))
    )
    hardware = Cpu((lambda x: torch.softmax(x, 1)) if right else row_major)
    outcome = checked(request, lambda message: None, hardware).outcome
    assert isinstance(outcome, Passed if right else Mismatch)
    if isinstance(outcome, Mismatch):
        assert outcome.message.startswith("x has strides (")
