"""From a kernel to its evaluation on a GPU: plan, compile, check on the card, time on the card.

The parent side of the GPU's lane: the stages before the run are the emulator's own. Imports no torch, holds
no CUDA, and draws conclusions from what the process with the GPU says, or from how it ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from pydantic import ValidationError

from workbench.compile import compile_kernel, load_cubin
from workbench.errors import DeviceError
from workbench.model import (
    Case,
    CaseTime,
    Check,
    CompileFailed,
    Counts,
    Crashed,
    Diagnostic,
    Digest,
    Evaluation,
    Kernel,
    LaunchFailed,
    Outcome,
    Passed,
    Printed,
    Problem,
    Resources,
    Stage,
    Suspect,
    Target,
    TimedOut,
)
from workbench.plan.steps import Launch, Plan
from workbench.referee import gpu_baselines, gpu_preparation, roofline
from workbench.referee.beside import Beside, available, with_cause
from workbench.referee.clock.options import INTERACTIVE, ClockOptions
from workbench.referee.clock.physics import physics_of
from workbench.referee.gpu_protocol import (
    Card,
    CheckReport,
    CheckRequest,
    CubinImage,
    Drawn,
    Inputs,
    TimeReport,
    TimeRequest,
)
from workbench.referee.judge import Judgement, joined
from workbench.referee.occupancy import too_many_at_once
from workbench.referee.options import JudgeOptions, fresh_seed
from workbench.referee.probing import ON_GPU, Reach
from workbench.referee.protocol import Trial
from workbench.referee.receipts import CaseReceipt, Machine, cubin_of, receipt_of, versions, write_receipt
from workbench.workers import Died, Expired, Raised, Result, Returned

Loss = Literal["none", "lost", "running"]
"""What a request cost: nothing, the process, or the process and the GPU until that has ended."""
TIME_WALL_S = 180.0
"""Seconds for timing one case, compiling its baselines included."""
MOST_REFUSED = 4
"""Checks that may be left out because the reference breaks the context; two processes each."""
_REFUSED: dict[Digest, tuple[Inputs, ...]] = {}
"""By problem: where it does, the same for every kernel."""
REGISTERS_A_WARP = 256
"""Registers are given to warps in pieces of this many."""


Payload = bytes | Callable[[], bytes]


class Asking(Protocol):
    """Whoever has a process with the GPU."""

    def ask(
        self,
        payload: Payload,
        wall_s: float,
        loss: Callable[[Result], Loss],
        on_message: Callable[[bytes], None] | None = None,
        quiet: bool = False,
        fresh: bool = False,
    ) -> Result:
        """One request to the process that holds the GPU, alone on it; ``quiet``: nothing else warms up.

        ``fresh``: to a process that has run nobody's kernel.
        A ``payload`` that is called is made when its turn has come: what others found out meanwhile is in it.
        ``loss`` is asked what the answer means for the process. Raises ``DeviceError``.
        """
        ...


@dataclass(frozen=True)
class GpuOptions:
    """How a kernel is judged on a GPU."""

    judge: JudgeOptions = field(default_factory=JudgeOptions)
    clock: ClockOptions = INTERACTIVE
    baselines: tuple[str, ...] = ("eager", "compile")
    timing: bool = True
    kernel_s: float = 5.0
    """Seconds until a kernel that has not ended counts as endless."""
    wall_s: float = 120.0
    """Seconds for all checks of a kernel."""
    hazards: bool = True
    """Have the emulator look for races and stray accesses beside the GPU, where there is g++."""
    sanitizer: bool = False
    """Run a kernel that passed under compute-sanitizer as well; seconds a tool."""
    slow_baselines: bool = False
    """Time the baselines that take long in the background, once a problem."""
    receipts: Path | None = None
    """Folder for receipts of measured times; None to keep none."""
    first_time: Callable[[Digest, CaseTime], None] | None = None
    """Told a first time against eager, right after the checks: other baselines may take long."""


def judge_on_gpu(
    problem: Problem,
    kernel: Kernel,
    gpu: tuple[Card, Asking],
    options: GpuOptions,
    on_stage: Callable[[Stage], None],
) -> Evaluation:
    """Judge one kernel on the GPU behind ``gpu``. Blocking; safe to call from many threads.

    Raises ``DeviceError`` when the machine fails.
    """
    card, lane = gpu
    own = {"own_seed": options.judge.own_seed or fresh_seed()}
    judgement = GpuJudgement(problem, kernel, card.target, options.judge.model_copy(update=own), on_stage)
    judgement.card, judgement.lane, judgement.gpu_options = card, lane, options
    return judgement.evaluation()


@dataclass
class GpuJudgement(Judgement):
    """One kernel on its way through the GPU's lane."""

    device: ClassVar[Literal["emulator", "cuda"]] = "cuda"
    reach: ClassVar[Reach] = ON_GPU
    card: Card = field(init=False)
    lane: Asking = field(init=False)
    gpu_options: GpuOptions = field(default_factory=GpuOptions)
    images: dict[tuple[tuple[str, str], ...], CubinImage] = field(default_factory=dict)
    measured: list[CaseTime] = field(default_factory=list)
    proofs: list[CaseReceipt] = field(default_factory=list)
    """What each time rests on."""
    flags: tuple[tuple[str, bool], ...] = ()
    beside: Beside | None = None

    def _is_run(self, case: Case) -> bool:
        return True

    # -------------------------------------------------------------------------------- compile

    def _compiled(self) -> Outcome | None:
        """Everything any case launches; the report tells of the declared cases only."""
        declared = {i for c in self.problem.cases if c in self.plans for i in self.plans[c].instances}
        wanted: dict[tuple[str, tuple[tuple[str, str], ...]], None] = {}
        for plan in self.plans.values():
            wanted |= dict.fromkeys(plan.instances)
        with self._clock("compile"):
            report = compile_kernel(self.kernel.source, wanted, self.target.arch)
            if isinstance(report, CompileFailed):
                return self._without_probes() if self.probes else report
            by_consts: dict[tuple[tuple[str, str], ...], list[str]] = {}
            for name, consts in wanted:
                by_consts.setdefault(consts, []).append(name)
            for consts, names in by_consts.items():
                image = load_cubin(self.kernel.source, consts, names, self.target.arch)
                if isinstance(image, CompileFailed):
                    return image
                self.images[consts] = CubinImage(
                    consts=consts, cubin=image[0], names=tuple((name, image[1][name]) for name in names)
                )
        resources = dict(zip(wanted, report.kernels, strict=True))
        told = tuple(r for instance, r in resources.items() if instance in declared)
        self.compiled = report.model_copy(update={"kernels": told})
        for case, plan in self.plans.items():
            for launch in plan.launches:
                used = resources[launch.kernel, launch.consts]
                if why := does_not_fit(launch, used, self.target):
                    if case in self.probes:
                        return self._without_probes()
                    line = Diagnostic(line=launch.line, message=why)
                    return LaunchFailed(case=case.label, diagnostics=(line,))
        return None

    def _without_probes(self) -> Outcome | None:
        """What cannot be built or started at sizes nobody declared is loud when asked for, not wrong."""
        for case in self.probes:
            del self.plans[case]
        self.probes, self.laid = [], {}
        return self._compiled()

    # -------------------------------------------------------------------------------- run

    def _ran(self) -> Outcome:
        self.on_stage("running")
        if self.gpu_options.hazards and available():
            self.beside = Beside(self)
        outcome = self._checked_and_timed()
        if self.beside is not None and not isinstance(outcome, TimedOut):
            with self._clock("emulate beside"):
                hazard = self.beside.hazard()
            if hazard is not None:
                return with_cause(hazard, outcome)
        return outcome

    def _checked_and_timed(self) -> Outcome:
        outcome = self._checked()
        if not isinstance(outcome, Passed) or not self.gpu_options.timing:
            return outcome
        if self.gpu_options.first_time is not None and (
            failed := self._first_time(self.gpu_options.first_time)
        ):
            return failed
        for case in self.problem.cases:
            if case in self.plans and (failed := self._timed(case)):
                return failed
        self._receipt()
        if told := [(t.case, t.measured.suspicion) for t in self.measured if t.measured]:
            odd = next(((case, why) for case, why in told if why), None)
            if odd:
                return Suspect(message=f"{odd[0]}: {odd[1]}")
        return outcome

    def _checked(self) -> Outcome:
        """All checks but those in which the reference breaks the context, also where no kernel has run.

        Behind a kernel it may be the kernel's doing: a stray write to what the reference reads. So it is
        asked once more, as the first thing that a new process does, before a check is left out. Another
        kernel of the problem, judged beside this one, may have been told so meanwhile.
        """
        told = ""
        doubted: Drawn | None = None
        for _ in range(2 * MOST_REFUSED):
            if doubted is not None and doubted[:2] in self._refused():
                doubted = None
            report = self._asked_to_check(doubted)
            if not isinstance(report, CheckReport):
                return report
            if report.refused is None:
                outcome = self._told_by(report)
                return _spoilt(doubted) if doubted and isinstance(outcome, Passed) else outcome
            if doubted not in (None, report.refused):
                return _spoilt(doubted)
            if doubted is not None:
                _REFUSED[self.problem.digest] = tuple(dict.fromkeys((*self._refused(), doubted[:2])))
            doubted = report.refused if doubted is None else None
            self.started, self.done, told = None, [], report.machine
        raise DeviceError(f"{told}; the kernel was not judged")

    def _refused(self) -> tuple[Inputs, ...]:
        """Checks that are left out so far, for every kernel of this problem."""
        return _REFUSED.get(self.problem.digest, ())

    def _asked_to_check(self, doubted: Drawn | None) -> CheckReport | Outcome:
        first = self.problem.cases[0]

        def request() -> bytes:
            asked = CheckRequest(
                problem=self.problem,
                trials=tuple(
                    Trial(case=c, plan=plan, once=c in self.probes, probe=c in self.probes)
                    for c, plan in self.plans.items()
                ),
                images=tuple(self.images.values()),
                options=self.options,
                own_tensors=self.problem.own_inputs and first in self.plans,
                kernel_s=self.gpu_options.kernel_s,
                refused=tuple(one for one in self._refused() if doubted is None or one != doubted[:2]),
                doubted=doubted,
            )
            return asked.model_dump_json().encode()

        with self._clock("run"):
            fresh = doubted is not None
            wall_s = self.gpu_options.wall_s
            result = self.lane.ask(request, wall_s, _loss_of_check, self._heard, fresh=fresh)
        if not isinstance(result, Returned):
            return self._ended(result)
        try:
            return CheckReport.model_validate_json(result.payload)
        except ValidationError:
            return Crashed(case=self._at(), message="the process gave an answer that makes no sense")

    def _told_by(self, report: CheckReport) -> Outcome:
        if report.machine:
            raise DeviceError(f"{report.machine}; the kernel was not judged")
        labels = {case.label for case in self.plans}
        self.left_out = tuple(
            Check(case=case, inputs=inputs, seed=0, covered=False, note="the reference fails there")
            for case, inputs in self._refused()
            if case in labels
        )
        self.seconds |= dict(report.seconds)
        self.card_bytes = report.peak_bytes
        if isinstance(report.outcome, Passed):
            return self._covering(report.outcome)
        return report.outcome

    def _ended(self, result: Result) -> Outcome:
        """What it means that the process gave no report."""
        match result:
            case Expired(limit_s=limit_s):
                return TimedOut(case=self._at(), limit_s=limit_s, message=self._during())
            case Died(message=message, stderr_tail=tail):
                return Crashed(case=self._at(), message=joined(message, tail, self._during()))
            case Raised():
                return self._raised(result)
            case Returned():
                raise AssertionError("a report is no ending")

    # -------------------------------------------------------------------------------- time

    def _first_time(self, tell: Callable[[Digest, CaseTime], None]) -> Outcome | None:
        """A quick look at the most important case; the verdict rests on none of it."""
        case = gpu_preparation.first_case(self.problem, frozenset(self.plans))
        assert case is not None  # planning saw to it
        request = self._time_request(case).model_copy(
            update={
                "clock": gpu_preparation.FIRST_CLOCK,
                "baselines": gpu_preparation.FIRST_BASELINES,
                "earlier": None,
                "missing": (gpu_preparation.COMPILING,),
            }
        )
        with self._clock("first time"):
            report = self._asked_for_time(request, quiet=False)
        if not isinstance(report, TimeReport):
            return report
        tell(self.kernel.digest, self._case_time(case, self.plans[case], report))
        return None

    def _timed(self, case: Case) -> Outcome | None:
        request = self._time_request(case)
        with self._clock(f"time {case.label}"):
            report = self._asked_for_time(request, quiet=True)
        if not isinstance(report, TimeReport):
            return report
        time = self._case_time(case, request.plan, report)
        self.measured.append(time)
        self.proofs.append(self._proof(request, time, report))
        self.flags = report.flags
        return None

    def _time_request(self, case: Case) -> TimeRequest:
        plan = self.plans[case]
        consts = {consts for _, consts in plan.instances}
        earlier, missing = gpu_baselines.known(self.problem, case, self.card)
        now = self.gpu_options.baselines  # timed in turns with this kernel: whatever was known of them before
        return TimeRequest(
            problem=self.problem,
            case=case,
            plan=plan,
            images=tuple(image for key, image in self.images.items() if key in consts),
            clock=self.gpu_options.clock,
            physics=physics_of(self.problem, case, self.target, self.card.dram_peak_bytes_per_s),
            baselines=self.gpu_options.baselines,
            earlier=earlier,
            missing=tuple((name, why) for name, why in missing if name not in now),
            seed=self.options.seed or 0,
        )

    def _asked_for_time(self, request: TimeRequest, quiet: bool) -> TimeReport | Outcome:
        """A report with a time in it, or what the kernel did instead. Raises ``DeviceError``."""
        label = request.case.label
        payload = request.model_dump_json().encode()
        result = self.lane.ask(payload, TIME_WALL_S, _loss_of_timing, quiet=quiet)
        if not isinstance(result, Returned):
            if isinstance(result, Raised):
                raise DeviceError(f"timing {label} failed: {result.type}: {result.message}")
            return self._ended(result)
        report = TimeReport.model_validate_json(result.payload)
        if report.machine:
            raise DeviceError(report.machine)
        return report if report.outcome is None else report.outcome

    def _proof(self, request: TimeRequest, time: CaseTime, report: TimeReport) -> CaseReceipt:
        assert report.measured is not None and report.raw is not None
        return CaseReceipt(
            case=request.case.label,
            sizes=request.case.sizes,
            plan=request.plan.digest,
            cubins=tuple(
                cubin_of(i.consts, tuple(name for name, _ in i.names), i.cubin) for i in request.images
            ),
            input_seed=request.seed,
            time_us=time.time_us,
            floor_us=time.floor_us,
            measured=report.measured,
            physics=request.physics,
            raw=report.raw,
            baselines=request.earlier,
        )

    def _receipt(self) -> None:
        """Write what the times rest on, and name the file in each of them."""
        folder = self.gpu_options.receipts
        if folder is None or not self.proofs:
            return
        machine = Machine(
            card=self.card.target.name,
            uuid=self.card.uuid,
            driver=self.card.driver,
            versions=versions(),
            flags=self.flags,
        )
        receipt = receipt_of(
            self.problem,
            self.kernel,
            self.target,
            machine,
            self.proofs,
            self.gpu_options.clock,
            self.options.seed or 0,
        )
        receipt = receipt.model_copy(update={"own_seed": self.options.own_seed})
        path = write_receipt(receipt, folder)
        named = f"{folder.name}/{path.name}"
        self.measured = [
            t.model_copy(update={"measured": t.measured.model_copy(update={"receipt": named})})
            for t in self.measured
            if t.measured is not None
        ]

    def _case_time(self, case: Case, plan: Plan, report: TimeReport) -> CaseTime:
        assert report.measured is not None and self.compiled is not None
        model = roofline.case_time(self.target, self.problem, case, plan, self.compiled, ())
        floor = roofline.floor_under(self.target, self.problem, case, report.time_us)
        return CaseTime(
            case=case.label,
            source="measured",
            time_us=report.time_us,
            baselines=tuple((rival.name, rival.time_us) for rival in report.measured.rivals),
            floor_us=floor,
            bound=model.bound,
            note=model.note,
            measured=report.measured,
        )

    def _times(self) -> tuple[CaseTime, ...]:
        return tuple(self.measured)

    def _notes(self) -> tuple[str, ...]:
        """That races and stray accesses may be there unseen, where the emulator did not look."""
        if not self.gpu_options.hazards:
            return ()
        if self.beside is None:  # where nothing ran there was nothing to look at
            return () if available() else ("hazards were not looked for: there is no g++",)
        why = self.beside.unseen
        return (f"hazards were not looked for: {why}",) if why else ()

    def told_by_printf(self, passed: bool) -> Printed | None:
        """What the emulator saw: the card's output is not caught."""
        return self.beside.printed if self.beside is not None else None

    def _counts(self) -> tuple[Counts, ...]:
        return self.beside.counts if self.beside is not None else ()


def does_not_fit(launch: Launch, used: Resources, target: Target) -> str:
    """Why a block of this launch cannot start on the card; empty when it can."""
    shared = used.shared_bytes + launch.shared_bytes
    if shared > target.shared_bytes_per_block:
        return (
            f"{launch.kernel} needs {shared:,} bytes of shared memory a block ({used.shared_bytes:,} of them "
            f"static), {target.name} has {target.shared_bytes_per_block:,}"
        )
    warps = -(-prod(launch.block) // 32)
    registers = -(-used.registers * 32 // REGISTERS_A_WARP) * REGISTERS_A_WARP * warps
    if registers > target.registers_per_sm:
        return (
            f"a block of {prod(launch.block)} threads of {launch.kernel} needs {registers:,} registers "
            f"({used.registers} a thread), a multiprocessor has {target.registers_per_sm:,}; use smaller "
            "blocks or __launch_bounds__"
        )
    return too_many_at_once(launch, used, target)


def _spoilt(behind: Drawn) -> Crashed:
    """The reference failed behind the kernel, and does not where it is asked first."""
    case, inputs, _ = behind
    return Crashed(
        case=case,
        message=f"the reference takes {inputs} inputs, and failed on them once this kernel had run: "
        "the kernel writes to memory that is not its own",
    )


def _loss_of_check(result: Result) -> Loss:
    return _loss(result, CheckReport)


def _loss_of_timing(result: Result) -> Loss:
    return _loss(result, TimeReport)


def _loss(result: Result, kind: type[CheckReport] | type[TimeReport]) -> Loss:
    """Any exception that reached the top may have left work on the device: the process is not trusted."""
    if not isinstance(result, Returned):
        return "lost"
    try:
        report = kind.model_validate_json(result.payload)
    except ValidationError:
        return "lost"
    return "running" if report.running else "lost" if report.lost else "none"
