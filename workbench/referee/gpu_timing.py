"""Times a kernel that passed, at one declared case, in the process that holds the GPU.

Owns the setting: fresh inputs in rotating copies, baselines on the same tensors, the check of a timed
output. The clock itself is the clock package's.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from workbench.errors import DeviceError
from workbench.model import Mismatch, Outcome, StepTime, TimedOut
from workbench.numerics.operators import leaves_open
from workbench.numerics.precision import flags, precision
from workbench.plan.steps import Launch, Library, Plan
from workbench.referee.clock.contestants import Baselines
from workbench.referee.clock.measure import Setting, Timing, measure
from workbench.referee.clock.rotation import rotated
from workbench.referee.gpu_expectation import Expectations, Prepared
from workbench.referee.gpu_faults import fault_of, outcome_of
from workbench.referee.gpu_protocol import TimeReport, TimeRequest
from workbench.referee.gpu_trial import LOST, Endless, Hardware, with_room
from workbench.referee.matrix import PlannedCheck
from workbench.referee.mismatch import mismatch
from workbench.referee.protocol import Trial

SEED = 4711
"""Timed inputs have a seed no check had."""
FIRST_CALL_S = 10.0

_BASELINES: dict[str, Baselines] = {}


def timed(request: TimeRequest, expectations: Expectations, hardware: Hardware) -> TimeReport:
    """Time one case; whatever CUDA answers is in the report."""
    started = time.perf_counter()
    hardware.release()
    try:
        with torch.no_grad(), precision(request.problem.contract):
            report = with_room(lambda: _timed(request, expectations, hardware), hardware)
    except Endless as error:
        LOST.append(error)  # with its frames, which hold the kernel that still runs
        endless = TimedOut(case=request.case.label, limit_s=FIRST_CALL_S, message="while it was timed")
        return TimeReport(outcome=endless, lost=True, running=True)
    except DeviceError as error:
        return TimeReport(machine=str(error), lost=True)
    except Exception as error:
        fault = fault_of(error)
        if fault is None:
            raise
        if fault.blame in ("machine", "memory"):
            return TimeReport(machine=f"{fault.message}, while timing {request.case.label}", lost=fault.lost)
        outcome = outcome_of(fault, error, request.case.label, "while it was timed")
        return TimeReport(outcome=outcome, lost=fault.lost)
    hardware.release()
    return report.model_copy(update={"seconds": (("time", time.perf_counter() - started),)})


def _timed(request: TimeRequest, expectations: Expectations, hardware: Hardware) -> TimeReport:
    trial = Trial(case=request.case, plan=request.plan)
    prepared = expectations.prepare(PlannedCheck(trial, "normal", SEED + request.seed, "plain"))
    assert prepared is not None
    sets = rotated(prepared.tensors, request.clock)
    run = hardware.runner(request.images, request.plan)
    run(sets[0])
    hardware.wait(FIRST_CALL_S)
    baselines = baselines_of(expectations)
    acts, missing = baselines.acts(request.baselines, sets)

    def check(outputs: tuple[torch.Tensor, ...]) -> str:
        found = expectations.differences(prepared, outputs)
        wrong = mismatch(request.case.label, "timed", found)
        return wrong.message if wrong else ""

    def marked(mark: Callable[[], None]) -> Callable[[], object]:
        call = hardware.marked(run, mark)
        return lambda: call(sets[0])

    setting = Setting(
        contract=request.problem.contract,
        physics=request.physics,
        check=lambda outputs: check(tuple(outputs)),
        left_open=leaves_open(request.problem.graph),
        baselines=request.earlier,
        missing=(*missing, *request.missing),
        steps=steps_of(request.plan),
        marked=marked,
    )
    try:
        timing = measure(
            request.case.label, lambda turn: run(sets[turn % len(sets)]), acts, request.clock, setting
        )
    finally:
        baselines.close()
    return _report(request, timing, prepared, tuple(flags().items()))


def steps_of(plan: Plan) -> tuple[StepTime, ...]:
    """Launches and library calls of a plan in order, with times still to come."""
    return tuple(
        StepTime(step=step.kernel, kind="kernel", line=step.line, time_us=0.0)
        if isinstance(step, Launch)
        else StepTime(step=step.op, kind="library", line=step.line, time_us=0.0)
        for step in plan.steps
        if isinstance(step, Launch | Library)
    )


def _report(
    request: TimeRequest, timing: Timing, prepared: Prepared, held: tuple[tuple[str, bool], ...]
) -> TimeReport:
    outcome: Outcome | None = None
    if timing.wrong:
        outcome = Mismatch(case=request.case.label, message=f"after timing, {timing.wrong}")
    elif changed := prepared.changed():
        names = ", ".join(one.name for one in changed)
        outcome = Mismatch(case=request.case.label, message=f"input {names} was changed while it was timed")
    return TimeReport(
        time_us=timing.time_us,
        measured=timing.measured,
        raw=timing.raw,
        flags=held,
        outcome=outcome,
    )


def baselines_of(expectations: Expectations) -> Baselines:
    """One object a problem and process: what it compiled stays compiled."""
    digest = expectations.problem.digest
    if digest not in _BASELINES:
        _BASELINES[digest] = Baselines(expectations.reference.form)
    return _BASELINES[digest]
