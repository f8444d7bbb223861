"""Judges kernels in the one process that holds a GPU: checks their numbers there, and times them.

The child side of the GPU's lane; it stays from kernel to kernel. An error of CUDA ends its usefulness, which
it says itself (``lost``), so that another process takes over. Owns the order of the questions asked of one
run; compiles nothing.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor

from workbench.errors import ProblemError
from workbench.model import Check, Difference, Hazard, Mismatch, Outcome, Passed, Problem, TimedOut
from workbench.numerics.precision import precision
from workbench.plan.steps import Plan
from workbench.referee import matrix
from workbench.referee.gpu_expectation import Expectations, Prepared
from workbench.referee.gpu_faults import Fault, fault_of, outcome_of
from workbench.referee.gpu_memory import fingerprint
from workbench.referee.gpu_protocol import (
    REQUEST,
    BaselineRequest,
    CheckReport,
    CheckRequest,
    CubinImage,
    Drawn,
    Inputs,
    PrepareRequest,
    TimeRequest,
    WarmRequest,
)
from workbench.referee.layouts import told_of_layout
from workbench.referee.mismatch import keeps_state, mismatch, never_written
from workbench.referee.planning import unlike_layout
from workbench.referee.protocol import CheckDone, CheckStarted

if TYPE_CHECKING:
    from workbench.gpu.variables import Watched

PROBLEMS = 3
"""Problems whose oracles are kept in the process."""
POLL_S = 20e-6

T = TypeVar("T")
Send = Callable[[bytes], None]
Run = Callable[..., tuple[Tensor, ...]]
"""``run(tensors, poison=False)``: one execution of a plan, queued and not waited for."""


class Endless(Exception):
    """A kernel has not ended in time; it still runs."""


class Hardware(Protocol):
    """What a judgement needs of the device; tests put the CPU in its place."""

    device: str

    def runner(self, images: tuple[CubinImage, ...], plan: Plan) -> Run:
        """Load a plan's kernels. Raises ``GpuError``."""
        ...

    def marked(self, run: Run, mark: Callable[[], None]) -> Run:
        """What ``runner`` gave, with a call of ``mark`` behind every launch and every library call."""
        ...

    def kept(self, plan: Plan) -> tuple[str, ...]:
        """Variables of a plan's kernels that no longer hold what they were loaded with, by name."""
        ...

    def wait(self, limit_s: float) -> None:
        """Until the device has done everything. Raises ``Endless`` and what CUDA raises."""
        ...

    def release(self) -> None:
        """Give back memory that nothing holds."""
        ...

    def peak_bytes(self) -> int:
        """Most memory held at once since the last call."""
        ...


class Gpu:
    """The current CUDA device of this process."""

    device = "cuda"

    def __init__(self) -> None:
        self._watched: dict[Plan, Watched] = {}

    def runner(self, images: tuple[CubinImage, ...], plan: Plan) -> Run:
        """See ``Hardware``."""
        from workbench.gpu.kernels import Image, Kernels
        from workbench.gpu.runner import PlanRunner

        wanted = {consts for _, consts in plan.instances}
        held = [Image(one.consts, one.cubin, one.names) for one in images if one.consts in wanted]
        kernels = Kernels(held)
        self._watched[plan] = kernels.watched(torch.cuda.current_device())
        return PlanRunner(plan, kernels)

    def marked(self, run: Run, mark: Callable[[], None]) -> Run:
        """See ``Hardware``."""
        from workbench.gpu.runner import PlanRunner

        assert isinstance(run, PlanRunner)
        return run.marked(mark, torch.cuda.current_device())

    def kept(self, plan: Plan) -> tuple[str, ...]:
        """See ``Hardware``."""
        return self._watched[plan].changed()

    def wait(self, limit_s: float) -> None:
        """See ``Hardware``."""
        event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        give_up = time.perf_counter() + limit_s
        while not event.query():
            if time.perf_counter() > give_up:
                raise Endless
            time.sleep(POLL_S)

    def release(self) -> None:
        """See ``Hardware``."""
        torch.cuda.empty_cache()

    def peak_bytes(self) -> int:
        """See ``Hardware``."""
        peak = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        return int(peak)


def serve(payload: bytes, send: Send) -> bytes:
    """Worker function of a conversation: a request in, messages on the way, a report out."""
    torch.set_num_threads(1)  # bounds of small cases are made on the processor, beside compilers
    request = REQUEST.validate_json(payload)
    if isinstance(request, WarmRequest):
        from workbench.referee.gpu_card import warm_up

        return warm_up(request).model_dump_json().encode()
    if isinstance(request, PrepareRequest):
        from workbench.referee.gpu_preparing import prepared

        known = expectations_of(request.problem, "cuda")
        return prepared(request, known).model_dump_json().encode()
    if needs_compiler(request):
        from workbench.referee.gpu_card import imported

        imported()
    if isinstance(request, BaselineRequest):
        from workbench.referee import gpu_baseline_timing

        known = expectations_of(request.problem, "cuda")
        return gpu_baseline_timing.timed(request, known, Gpu()).model_dump_json().encode()
    if isinstance(request, TimeRequest):
        from workbench.referee.gpu_timing import timed

        return timed(request, expectations_of(request.problem, "cuda"), Gpu()).model_dump_json().encode()
    return checked(request, send, Gpu()).model_dump_json().encode()


def needs_compiler(request: CheckRequest | TimeRequest | BaselineRequest) -> bool:
    """True where torch.compile takes part, which is imported in the background for seconds."""
    return not isinstance(request, CheckRequest) and any(name != "eager" for name in request.baselines)


LOST: list[object] = []
"""What belongs to a broken context is never freed: unloading a kernel that still runs would wait for it."""
_KNOWN: OrderedDict[tuple[str, str], Expectations] = OrderedDict()


def expectations_of(problem: Problem, device: str) -> Expectations:
    """Those of earlier requests where the problem is the same."""
    key = (problem.digest, device)
    if key not in _KNOWN:
        _KNOWN[key] = Expectations(problem, device)
    _KNOWN.move_to_end(key)
    while len(_KNOWN) > PROBLEMS:
        _KNOWN.popitem(last=False)
    return _KNOWN[key]


def with_room(call: Callable[[], T], hardware: Hardware) -> T:
    """Call; once more where memory does not suffice beside what is kept of checks. Raises what it raises."""
    try:
        return call()
    except torch.OutOfMemoryError:
        forgotten = [known.forget() for known in _KNOWN.values()]
        if not any(forgotten):
            raise
    hardware.release()
    return call()


def checked(request: CheckRequest, send: Send, hardware: Hardware) -> CheckReport:
    """Run every check until one fails."""
    with torch.no_grad(), precision(request.problem.contract):
        trials = _Trials(request, send, hardware)
        return trials.report()


@dataclass
class _Trials:
    request: CheckRequest
    send: Send
    hardware: Hardware
    seconds: dict[str, float] = field(default_factory=lambda: {"load": 0.0, "oracle": 0.0, "execute": 0.0})
    runners: dict[Plan, Run] = field(default_factory=dict)
    peaks: dict[str, tuple[int, int]] = field(default_factory=dict)
    deterministic: bool = True
    stage: str = ""
    """What was being done when an error came."""
    preparing: bool = False
    """The reference is at work, and the kernel of this check has not begun."""

    def report(self) -> CheckReport:
        """All checks, with an error of the device as a verdict."""
        request = self.request
        checks = matrix.checks_on_gpu(request.trials, request.options, request.own_tensors)
        checks = tuple(one for one in checks if _inputs_of(one) not in request.refused)
        checks = tuple(sorted(checks, key=lambda one: not self._is_doubted(one)))
        planned = checks[0] if checks else None
        try:
            expectations = expectations_of(request.problem, self.hardware.device)
            for planned in checks:
                failed = self._checked(planned, expectations)
                if failed is not None:
                    return self._told(told_of_layout(request.problem, planned.trial.plan, failed))
            return self._told(Passed(deterministic=self.deterministic))
        except Endless:
            assert planned is not None
            case, limit_s = planned.trial.case.label, request.kernel_s
            endless = TimedOut(case=case, limit_s=limit_s, message=_during(planned))
            return self._told(endless, lost=True, running=True)
        except Exception as error:
            fault = fault_of(error)
            if fault is None or planned is None:
                raise
            if fault.blame == "kernel" and (self.preparing or self._may_be_the_reference(planned)):
                return self._reference_failed(planned, fault)
            if fault.blame == "machine" or (self.stage == "oracle" and fault.blame != "kernel"):
                return self._told(Passed(), lost=fault.lost, machine=fault.message)
            outcome = outcome_of(fault, error, planned.trial.case.label, _during(planned))
            return self._told(outcome, lost=fault.lost)

    def _may_be_the_reference(self, planned: matrix.PlannedCheck) -> bool:
        """True where the kernel has ended well, and then an error came while the reference was at work.

        Large cases are bounded slice by slice, when the outputs are there. Where the check is doubted the
        reference has run before: then what a kernel has done to its inputs, or to a table it reads, is left.
        """
        return self.stage == "oracle" and planned.may_be_refused and not self._is_doubted(planned)

    def _is_doubted(self, planned: matrix.PlannedCheck) -> bool:
        return _drawn_for(planned) == self.request.doubted

    def _reference_failed(self, planned: matrix.PlannedCheck, fault: Fault) -> CheckReport:
        """No kernel is to blame. The context is gone, but another process may go on without this check."""
        what = fault.message.replace("the kernel", "it")
        when = "before the kernel ran" if self.preparing else "when the kernel had ended"
        where = f"the reference failed at {planned.trial.case.label}, {when}"
        told = f"{where}: {what}; no kernel can be judged there"
        report = self._told(Passed(), lost=fault.lost, machine=told)
        refused = _drawn_for(planned) if planned.may_be_refused else None
        return report.model_copy(update={"refused": refused})

    def _told(
        self, outcome: Outcome, lost: bool = False, running: bool = False, machine: str = ""
    ) -> CheckReport:
        if lost:
            LOST.append(self)
        return CheckReport(
            outcome=outcome,
            lost=lost,
            running=running,
            machine=machine,
            seconds=tuple(self.seconds.items()),
            peak_bytes=tuple((case, *both) for case, both in self.peaks.items()),
        )

    def _checked(self, planned: matrix.PlannedCheck, expectations: Expectations) -> Outcome | None:
        """One check; what the reference refuses of what nobody promised is held against nobody."""
        try:
            return self._asked(planned, expectations)
        except ProblemError as error:
            if planned.may_be_refused and fault_of(error) is None:
                return None
            raise

    def _asked(self, planned: matrix.PlannedCheck, expectations: Expectations) -> Outcome | None:
        case = planned.trial.case
        started = CheckStarted(case=case.label, inputs=planned.inputs, seed=planned.seed)
        self.send(started.model_dump_json().encode())
        declared = case.origin == "declared"
        if declared:
            self.hardware.release()
            self.hardware.peak_bytes()
        self.preparing = True
        with self._timed("oracle"):
            prepared = expectations.prepare(planned)
            if prepared is not None and self._is_doubted(planned):
                expectations.rehearse(prepared)
        self.preparing = False
        if prepared is None or (planned.trial.probe and prepared.doubtful):
            return None
        if told := unlike_layout(self.request.problem, planned.trial.plan, prepared.strides):
            return Mismatch(case=case.label, message=told)
        outputs = self._executed(planned, prepared)
        io_bytes = sum(o.nbytes for o in outputs) + sum(one.tensor.nbytes for one in prepared.inputs)
        failed = spoilt_input(prepared) or self._judged(planned, prepared, outputs, expectations)
        first = [int(fingerprint(output)) for output in outputs] if planned.repeat else []
        del outputs  # before the second run: two outputs of 6 GB are half as much again as the case needs
        if failed is None and planned.repeat:
            failed = self._again(planned, prepared, first, expectations)
        if failed is None and (kept := self.hardware.kept(planned.trial.plan)):
            failed = keeps_state(kept)
        if declared:
            self.peaks[case.label] = (max(self.hardware.peak_bytes(), self._peak(case.label)), io_bytes)
        return failed

    def _peak(self, case: str) -> int:
        return self.peaks.get(case, (0, 0))[0]

    def _executed(self, planned: matrix.PlannedCheck, prepared: Prepared) -> tuple[Tensor, ...]:
        plan = planned.trial.plan
        if plan not in self.runners:
            with self._timed("load"):
                self.runners[plan] = self.hardware.runner(self.request.images, plan)
        with self._timed("execute"):
            outputs = with_room(lambda: self.runners[plan](prepared.tensors, poison=True), self.hardware)
            self.hardware.wait(self.request.kernel_s)
        return outputs

    def _judged(
        self,
        planned: matrix.PlannedCheck,
        prepared: Prepared,
        outputs: tuple[Tensor, ...],
        expectations: Expectations,
        note: str = "",
    ) -> Outcome | None:
        with self._timed("oracle"):
            differences = expectations.differences(prepared, outputs)
        case = planned.trial.case.label
        check = Check(
            case=case,
            inputs=planned.inputs,
            seed=planned.seed,
            differences=differences,
            note="; ".join(filter(None, (note, prepared.note))),
        )
        self.send(CheckDone(check=check).model_dump_json().encode())
        return untouched(case, outputs, differences) or mismatch(case, planned.inputs, differences)

    def _again(
        self,
        planned: matrix.PlannedCheck,
        prepared: Prepared,
        first: list[int],
        expectations: Expectations,
    ) -> Outcome | None:
        """A second run on the same inputs: the first one's fingerprints, or judged anew and labelled."""
        again = self._executed(planned, prepared)
        if [int(fingerprint(output)) for output in again] == first:
            return None
        self.deterministic = False
        return self._judged(planned, prepared, again, expectations, "second run, other bits")

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        self.stage = stage
        yield
        self.seconds[stage] += time.perf_counter() - started


def _during(planned: matrix.PlannedCheck) -> str:
    return f"during the check on {planned.inputs} inputs, seed {planned.seed}"


def _inputs_of(planned: matrix.PlannedCheck) -> Inputs:
    return planned.trial.case.label, planned.inputs


def _drawn_for(planned: matrix.PlannedCheck) -> Drawn:
    return *_inputs_of(planned), planned.seed


def spoilt_input(prepared: Prepared) -> Outcome | None:
    """Inputs are read-only, and what lies beside them is nobody's."""
    for one in prepared.changed():
        case = prepared.case.label
        if one.broken_guard():
            message = f"the kernel wrote outside its tensors, next to input {one.name}"
            return Hazard(hazard="out_of_bounds", case=case, line=None, message=message)
        message = f"the kernel wrote into its input {one.name}"
        return Hazard(hazard="input_written", case=case, line=None, message=message)
    return None


def untouched(case: str, outputs: tuple[Tensor, ...], differences: tuple[Difference, ...]) -> Mismatch | None:
    """Elements that still hold the poison they were given, in an output that is wrong."""
    for number, (output, difference) in enumerate(zip(outputs, differences, strict=True)):
        if difference.max_ratio <= 1 or not output.numel():
            continue
        left = _poisoned(output)
        count = int(left.sum())
        if count:
            first = left.reshape(-1).to(torch.uint8).argmax()
            index = torch.unravel_index(first, output.shape)
            place = tuple(int(i) for i in index)
            return never_written(case, [tuple(one.shape) for one in outputs], number, count, place)
    return None


def _poisoned(output: Tensor) -> Tensor:
    """Where an output is bit for bit what ``poison`` fills new memory with."""
    from workbench.gpu.program import poisoned

    sizes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    one = poisoned(torch.empty((1,), dtype=output.dtype, device=output.device))
    width = sizes[output.element_size()]
    return output.contiguous().view(width) == one.view(width)
