"""Runs a candidate on the emulator, check after check, and says what came of it.

The child side of the judge: everything here happens in a disposable process with limits. Stops at the
first failing check, which it reports in full. Owns the order of the questions asked of one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from workbench.emulator.buffers import same_bits
from workbench.emulator.build import build
from workbench.emulator.execute import Execution, execute
from workbench.emulator.hosts import RunnerEnded
from workbench.emulator.runner import Runner, start
from workbench.emulator.values import BlockOrder, Consts, Mode, Module, Options
from workbench.errors import EmulatorBuildError, EmulatorLaunchError, EmulatorUnsupported, ProblemError
from workbench.model import (
    Check,
    CompileFailed,
    Crashed,
    Difference,
    Hazard,
    LaunchFailed,
    Mismatch,
    Outcome,
    Passed,
    Printed,
    Suspect,
    TimedOut,
)
from workbench.numerics.bounds import OutputBound, in_expected_order
from workbench.numerics.compare import compare
from workbench.problem.reference import Reference
from workbench.referee import matrix
from workbench.referee.eager import eager_operations
from workbench.referee.expectation import Expectation, expect
from workbench.referee.kept_expectations import kept
from workbench.referee.layouts import told_of_layout
from workbench.referee.mismatch import keeps_state, mismatch, never_written
from workbench.referee.planning import unlike_layout
from workbench.referee.protocol import CheckDone, CheckStarted, EagerCase, TrialReport, TrialRequest
from workbench.workers import prepared_by

BUILDERS = 2
"""g++ processes at once."""

OTHER_VALUES = (1, 2)
"""Of ``Options.undefined``: large numbers of either sign."""
OTHER_ORDERS: tuple[BlockOrder, ...] = ("last first", "drawn")
ORDER = 1e-3
"""What the order of additions may change; the values above change far more."""

Send = Callable[[bytes], None]
T = TypeVar("T")


@prepared_by(start)
def run(payload: bytes, send: Send, runner: Runner) -> bytes:
    """Worker function: a ``TrialRequest`` in, messages on the way, a ``TrialReport`` out.

    The kernel runs in ``runner``, a process of its own that was forked before the request was read.
    """
    torch.set_num_threads(1)
    request = TrialRequest.model_validate_json(payload)
    runner.limit_bytes = request.options.memory_bytes
    with ThreadPoolExecutor(BUILDERS) as builders:
        trials = _Trials(request, send, _Builds(request, builders), runner)
        outcome = trials.outcome()
    eager = trials.eager() if request.eager and isinstance(outcome, Passed) else ()
    report = TrialReport(
        outcome=outcome, printed=trials.printed, eager=eager, seconds=tuple(trials.seconds.items())
    )
    return report.model_dump_json().encode()


class _Builds:
    """Modules under construction: one shared library for each set of consts and mode, built once."""

    def __init__(self, request: TrialRequest, builders: ThreadPoolExecutor) -> None:
        self._source = request.source
        self._builders = builders
        self._kernels: dict[Consts, dict[str, None]] = {}
        for trial in request.trials:
            for kernel, consts in trial.plan.instances:
                self._kernels.setdefault(consts, {})[kernel] = None
        self._begun: dict[tuple[Consts, Mode], Future[Module]] = {}

    def begin(self, planned: matrix.PlannedCheck) -> None:
        """Start building what a check needs, unless that is under way."""
        for _, consts in planned.trial.plan.instances:
            key = (consts, planned.mode)
            if key not in self._begun:
                instances = [(kernel, consts) for kernel in self._kernels[consts]]
                self._begun[key] = self._builders.submit(build, self._source, instances, planned.mode)

    def module(self, planned: matrix.PlannedCheck) -> Module:
        """Wait for what a check needs. Raises what the build raised."""
        self.begin(planned)
        wanted = dict.fromkeys(consts for _, consts in planned.trial.plan.instances)
        parts = [self._begun[consts, planned.mode].result() for consts in wanted]
        return Module(
            mode=planned.mode,
            binaries=tuple(binary for part in parts for binary in part.binaries),
            seconds=sum(part.seconds for part in parts),
            cached=all(part.cached for part in parts),
        )

    def cancel(self) -> None:
        """Drop what has not begun: a check failed."""
        for future in self._begun.values():
            future.cancel()


@dataclass
class _Trials:
    request: TrialRequest
    send: Send
    builds: _Builds
    runner: Runner
    seconds: dict[str, float] = field(default_factory=lambda: {"build": 0.0, "oracle": 0.0, "emulate": 0.0})
    deterministic: bool = True
    usual: bool = False
    """True once a kernel was held against what the reference makes of usual values."""
    refused: ProblemError | None = None
    """What the reference said of usual values at the latest size that it did not take."""
    printed: Printed | None = None
    """Of a run that had to be stopped."""

    def __post_init__(self) -> None:
        self.reference = Reference(self.request.problem)

    def outcome(self) -> Outcome:
        """Run checks until one fails."""
        request = self.request
        checks = matrix.checks_of(request.trials, request.options, request.own_tensors)
        for planned in checks:
            self.builds.begin(planned)
        for planned in checks:
            failed = self._checked(planned)
            if failed is not None:
                failed = self._cause(failed, planned, checks)
                self.builds.cancel()
                return told_of_layout(request.problem, planned.trial.plan, failed)
        if not self.usual and self.refused is not None:
            raise self.refused  # it takes no size at all
        return Passed(deterministic=self.deterministic)

    def _cause(
        self, failed: Outcome, at: matrix.PlannedCheck, checks: Sequence[matrix.PlannedCheck]
    ) -> Outcome:
        """Of wrong numbers where races were not looked for everywhere: a smaller case's race, if any."""
        traced = [planned for planned in checks if self._traced(planned)]
        if not isinstance(failed, Mismatch) or self._traced(at) or not traced:
            return failed
        planned = max(traced, key=lambda planned: matrix.elements(planned.trial))
        try:
            module, expected = self.builds.module(planned), self._expected(planned)
            if expected is None:
                return failed
            execution = self._execute(planned, module, expected)
            kept = self._keeps_one_of_two(planned, module, expected, execution)
        except (EmulatorBuildError, EmulatorLaunchError, EmulatorUnsupported, RunnerEnded):
            return failed  # the wrong numbers were seen; why, was not
        differences = _differences(execution, expected.bounds)
        found = verdict(planned, execution, differences)
        found = found if isinstance(found, Hazard) else kept
        if found is None:
            return failed
        self._report(planned, expected, execution, differences)
        return found

    def _traced(self, planned: matrix.PlannedCheck) -> bool:
        """True where races are looked for in all blocks."""
        return planned.races and matrix.threads(planned.trial) <= self.request.options.traced_threads

    def eager(self) -> tuple[EagerCase, ...]:
        """Operations of the reference at every declared case."""
        problem = self.request.problem
        return tuple(
            EagerCase(case=c.label, operations=eager_operations(self.reference, problem, c))
            for c in problem.cases
        )

    def _checked(self, planned: matrix.PlannedCheck) -> Outcome | None:
        case = planned.trial.case.label
        self._tell(CheckStarted(case=case, inputs=planned.inputs, seed=planned.seed))
        try:
            module = self._timed("build", lambda: self.builds.module(planned))
            expected = self._timed("oracle", lambda: self._expected(planned))
            if expected is None:
                return None
            if told := unlike_layout(self.request.problem, planned.trial.plan, expected.strides):
                return Mismatch(case=case, message=told)
            execution = self._execute(planned, module, expected)
            self.usual |= planned.inputs == "normal"
            return self._judged(planned, module, expected, execution)
        except EmulatorBuildError as error:
            return CompileFailed(stage="emulator", diagnostics=error.diagnostics)
        except EmulatorLaunchError as error:
            return LaunchFailed(case=case, diagnostics=error.diagnostics)
        except EmulatorUnsupported as error:
            return Suspect(message=f"nothing was checked: {error}")
        except RunnerEnded as ended:
            self.printed = ended.printed and ended.printed.model_copy(update={"inputs": planned.inputs})
            during = f"during the check on {planned.inputs} inputs, seed {planned.seed}"
            if ended.cpu_s is not None:
                return _out_of_time(case, ended, during)
            return Crashed(case=case, message=f"{ended}, {during}")

    def _expected(self, planned: matrix.PlannedCheck) -> Expectation | None:
        where, trial = self.request.kept, planned.trial
        make = partial(expect, self.request.problem, self.reference, planned)
        what = (self.request.problem.digest, trial.case, trial.plan.arguments, planned.inputs, planned.seed)
        try:
            expected = make() if where is None or planned.own else kept(where, what, make)
        except ProblemError as error:
            if not planned.may_be_refused:
                raise
            self.refused = error if planned.inputs == "normal" else self.refused
            return None
        return None if planned.trial.probe and expected and expected.doubtful else expected

    def _execute(
        self,
        planned: matrix.PlannedCheck,
        module: Module,
        expected: Expectation,
        *,
        reverse: bool = False,
        undefined: int = 0,
        order: BlockOrder = "by number",
    ) -> Execution:
        options = Options(
            case=planned.trial.case.label,
            races=planned.races,
            raced_threads=self.request.options.traced_threads,
            reverse=reverse,
            undefined=undefined,
            order=order,
            resident=0 if order == "by number" else planned.trial.room,
            draw=planned.seed,
        )
        work = partial(execute, planned.trial.plan, module, expected.tensors, options, self.runner)
        return self._timed("emulate", work)

    def _judged(
        self, planned: matrix.PlannedCheck, module: Module, expected: Expectation, execution: Execution
    ) -> Outcome | None:
        """Judge one run; with ``repeat`` a second one too, whose order of threads is the opposite."""
        differences = _differences(execution, expected.bounds)
        self._report(planned, expected, execution, differences)
        failed = verdict(planned, execution, differences)
        if used := self._uses_absent_lane(planned, module, expected, execution, failed):
            return used
        if isinstance(failed, Mismatch):
            return self._keeps_one_of_two(planned, module, expected, execution) or failed
        if failed is None and execution.report.converses:
            failed = self._in_other_orders(planned, module, expected, execution)
        if failed is not None or not planned.repeat:
            return failed
        again = self._execute(planned, module, expected, reverse=True)
        if same_bits(execution.outputs, again.outputs):
            return None
        self.deterministic = False
        differences = _differences(again, expected.bounds)
        self._report(planned, expected, again, differences, "threads in reverse order")
        return verdict(planned, again, differences)

    def _in_other_orders(
        self, planned: matrix.PlannedCheck, module: Module, expected: Expectation, execution: Execution
    ) -> Outcome | None:
        """Blocks that tell one another something, where others begin first: CUDA promises no order.

        Wrong numbers there are a race between blocks that only their numbers decided.
        """
        for order in OTHER_ORDERS:
            again = self._execute(planned, module, expected, order=order)
            self.deterministic &= same_bits(execution.outputs, again.outputs)
            differences = _differences(again, expected.bounds)
            failed = verdict(planned, again, differences)
            if failed is None:
                continue
            self._report(planned, expected, again, differences, f"order of blocks: {order}")
            return told_of_order(failed, order)
        return None

    def _uses_absent_lane(
        self,
        planned: matrix.PlannedCheck,
        module: Module,
        expected: Expectation,
        execution: Execution,
        failed: Outcome | None,
    ) -> Hazard | None:
        """A shuffle from a lane that takes no part, where the results depend on what comes from there.

        Reading one is no mistake: the upper lanes of a reduction over half a warp do it, and nobody looks at
        their sums. So the run is repeated with other values from there.
        """
        lanes = execution.report.absent_lanes
        looked_for = isinstance(failed, Mismatch) or (failed is None and planned.mode == "checked")
        if not lanes or not looked_for:
            return None
        for undefined in OTHER_VALUES:
            other = self._execute(planned, module, expected, undefined=undefined)
            if not _alike(execution.outputs, other.outputs):
                return lanes[0]
        return None

    def _keeps_one_of_two(
        self,
        planned: matrix.PlannedCheck,
        module: Module,
        expected: Expectation,
        execution: Execution,
    ) -> Hazard | None:
        """Of wrong numbers: different values written to one place at once, where it matters which stays.

        A kernel may let any lane win. So the run is repeated with the threads in the opposite order.
        """
        contested = execution.report.contested
        if not contested:
            return None
        other = self._execute(planned, module, expected, reverse=True)
        return None if _alike(execution.outputs, other.outputs) else contested[0]

    def _report(
        self,
        planned: matrix.PlannedCheck,
        expected: Expectation,
        execution: Execution,
        differences: tuple[Difference, ...],
        note: str = "",
    ) -> None:
        check = Check(
            case=planned.trial.case.label,
            inputs=planned.inputs,
            seed=planned.seed,
            differences=differences,
            note="; ".join(filter(None, (note, expected.note))),
        )
        self._tell(CheckDone(check=check, report=execution.report))

    def _tell(self, message: CheckStarted | CheckDone) -> None:
        self.send(message.model_dump_json().encode())

    def _timed(self, stage: str, work: Callable[[], T]) -> T:
        started = time.perf_counter()
        try:
            return work()
        finally:
            self.seconds[stage] += time.perf_counter() - started


# ------------------------------------------------------------------------------------ one run


def verdict(
    planned: matrix.PlannedCheck, execution: Execution, differences: Iterable[Difference]
) -> Outcome | None:
    """What one run proves against the kernel; None when nothing.

    Undefined behaviour comes before wrong numbers: it is the cause, they are the effect.
    """
    case, report = planned.trial.case.label, execution.report
    if report.hazards:
        return report.hazards[0]
    if report.trap is not None:
        return Crashed(case=case, message=report.trap)
    if report.stopped:
        return Crashed(case=case, message="the kernel stopped before its end")
    for missing in report.unwritten:
        shapes = [tuple(output.shape) for output in execution.outputs]
        return never_written(case, shapes, missing.output, missing.elements, missing.first)
    if wrong := mismatch(case, planned.inputs, tuple(differences)):
        return wrong
    if report.kept:
        return keeps_state(report.kept)
    return None


def told_of_order(failed: Outcome, order: BlockOrder) -> Outcome:
    """What came of another order of blocks, in words that say so."""
    how = f"where blocks begin in another order ({order}), which CUDA allows"
    if isinstance(failed, Mismatch):
        return Hazard(hazard="race", case=failed.case, line=None, message=f"{failed.message}: {how}")
    if isinstance(failed, Hazard):
        return failed.model_copy(update={"message": f"{failed.message}: {how}"})
    return failed


def _differences(execution: Execution, limits: tuple[OutputBound, ...]) -> tuple[Difference, ...]:
    return tuple(
        compare(got, limit, number)
        for number, (got, limit) in enumerate(
            zip(in_expected_order(execution.outputs, limits), limits, strict=False)
        )
    )


def _out_of_time(case: str, ended: RunnerEnded, during: str) -> TimedOut:
    """A launch that was stopped, and where."""
    assert ended.cpu_s is not None
    spent = f"after {ended.cpu_s:.0f} s of processor time"
    told = (
        f"line {ended.line}: a thread was still here {spent}: {ended}" if ended.line else f"{ended} {spent}"
    )
    return TimedOut(case=case, limit_s=round(ended.cpu_s), message=f"{told}, {during}", line=ended.line)


def _alike(left: Sequence[Tensor], right: Sequence[Tensor]) -> bool:
    """Equal but for what another order of additions may change."""
    return len(left) == len(right) and all(map(_close, left, right))


def _close(a: Tensor, b: Tensor) -> bool:
    if not a.is_floating_point():
        return torch.equal(a, b)
    wide, other = a.double(), b.double()
    scale = wide[wide.isfinite()].abs().max().item() if wide.isfinite().any() else 0.0
    return torch.allclose(wide, other, rtol=ORDER, atol=ORDER * scale, equal_nan=True)
