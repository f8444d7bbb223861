"""From a kernel to its evaluation: plan, compile, run, compare, model the time.

The parent side: asks workers and draws conclusions; imports no torch and runs nothing of the kernel.
Whatever the kernel or its process does is an ``Outcome``; only a broken machine raises.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import ValidationError

from workbench.compile import compile_kernel
from workbench.errors import DeviceError, PlanError
from workbench.model import (
    Case,
    CaseTime,
    Check,
    CompileFailed,
    CompileReport,
    Counts,
    Crashed,
    Diagnostic,
    Evaluation,
    Kernel,
    LaunchFailed,
    Layout,
    Mismatch,
    Outcome,
    Passed,
    PlanFacts,
    Printed,
    Problem,
    Stage,
    Suspect,
    Target,
    TimedOut,
)
from workbench.plan.facts import facts
from workbench.plan.interpret import Path
from workbench.plan.parse import parse
from workbench.plan.steps import Plan
from workbench.problem.layout import unlike_declared
from workbench.referee import matrix, roofline
from workbench.referee.baselines import EagerOp
from workbench.referee.comparisons import compared, handed
from workbench.referee.layouts import plans_laid_otherwise
from workbench.referee.occupancy import not_together
from workbench.referee.options import JudgeOptions
from workbench.referee.planning import ONE_SM, is_variant, plan_cases, situations, unaligned, unlike_outputs
from workbench.referee.probing import (
    EMULATED,
    Reach,
    Taken,
    beside,
    candidates,
    chosen,
    spread,
    unexercised,
)
from workbench.referee.protocol import (
    LEAST_ROOM,
    MESSAGE,
    NO_NUMBERS,
    CheckDone,
    CheckStarted,
    Kept,
    Planned,
    Trial,
    TrialReport,
    TrialRequest,
)
from workbench.referee.traffic import Observation
from workbench.workers import Died, Expired, Limits, Raised, Result, Returned, torch_ready

OnStage = Callable[[Stage], None]

_EAGER: dict[str, dict[str, tuple[EagerOp, ...]]] = {}
"""Operations of eager references by problem digest and case: the same for every candidate."""


def judge(
    problem: Problem,
    kernel: Kernel,
    target: Target,
    options: JudgeOptions,
    on_stage: OnStage,
    kept: Kept | None = None,
) -> Evaluation:
    """Judge one kernel on the emulator. Blocking; safe to call from many threads.

    ``kept`` is where what must come of checks is kept for other kernels judged with the same seed. Times are
    a roofline model for ``target``. Raises ``DeviceError`` when the machine fails.
    """
    return Judgement(problem, kernel, target, options, on_stage, kept=kept).evaluation()


def precheck(problem: Problem, kernel: Kernel, target: Target) -> CompileReport | Outcome:
    """Plan and compile only, as judging would: the compiler's report, or what stands in the way.

    For a text somebody is still typing. Raises ``DeviceError``.
    """
    judgement = Judgement(problem, kernel, target, JudgeOptions(), lambda stage: None)
    outcome = judgement._planned() or judgement._compiled()
    assert outcome is not None or judgement.compiled is not None
    return outcome or judgement.compiled  # type: ignore[return-value]


_OWN_LIMIT = "the limit is the emulator's, which is slow: a kernel that a GPU ends in time may meet it"


@dataclass
class Judgement:
    """One kernel on its way to an evaluation; the emulator's lane. The GPU's lane changes some stages."""

    device: ClassVar[Literal["emulator", "cuda"]] = "emulator"
    reach: ClassVar[Reach] = EMULATED
    problem: Problem
    kernel: Kernel
    target: Target
    options: JudgeOptions
    on_stage: OnStage
    plans: dict[Case, Plan] = field(default_factory=dict)
    not_covered: list[Planned] = field(default_factory=list)
    probes: list[Case] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    """Paths through the plan of declared cases, proofs and probes."""
    laid: dict[str, tuple[Layout, ...]] = field(default_factory=dict)
    """By label of a probe: the tensors that lie otherwise than declared there."""
    compiled: CompileReport | None = None
    started: CheckStarted | None = None
    done: list[CheckDone] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    card_bytes: tuple[tuple[str, int, int], ...] = ()
    printed: Printed | None = None
    """Of a run that had to be stopped."""
    left_out: tuple[Check, ...] = ()
    """Checks that are too large for where kernels run, or that the reference itself does not survive."""
    kept: Kept | None = None
    """Where what must come of checks is kept for other kernels."""

    def __post_init__(self) -> None:
        self.options = self.options.drawn()

    def evaluation(self) -> Evaluation:
        """Go through the stages; the first that fails decides."""
        outcome = self._planned()
        if outcome is None:
            self._probe()
            self._lay_otherwise()
            outcome = self._compiled() or self._ran()
        passed = isinstance(outcome, Passed)
        if not passed:
            self._remark()
        return Evaluation(
            kernel=self.kernel.digest,
            device=self.device,
            target=self.target.name,
            outcome=outcome,
            compiled=self.compiled,
            facts=self._facts(),
            checks=(*(done.check for done in self.done), *self._uncovered_checks(), *self.left_out),
            counts=self._counts(),
            times=self._times() if passed else (),
            card_bytes=self.card_bytes,
            seed=self.options.seed or 0,
            printed=self.told_by_printf(passed),
            notes=(*self._notes(), *self._said_of_inputs(), *(self._not_run() if passed else ())),
            seconds=tuple((stage, round(s, 4)) for stage, s in self.seconds.items()),
        )

    # -------------------------------------------------------------------------------- plan

    def _planned(self) -> Outcome | None:
        self.on_stage("compiling")
        with self._clock("plan"):
            try:
                program = parse(self.kernel.source)
            except PlanError as error:
                return CompileFailed(stage="plan", diagnostics=error.diagnostics)
            planned = plan_cases(program, situations(self.problem), self.target)
        for one in planned:
            if one.plan is None and one.case.label.endswith(ONE_SM):
                continue  # no such card exists: what a plan refuses on it is not held against it
            if not one.covered:
                self.not_covered.append(one)
            elif one.plan is None:
                return LaunchFailed(case=one.case.label, diagnostics=self._placed(one))
            elif told := unlike_outputs(self.problem, one.case, one.plan):
                return Mismatch(case=one.case.label, message=told)
            else:
                self.plans[one.case] = one.plan
                if not is_variant(one.case.label):
                    self.taken.append(Taken(one.case, one.path))
        if not any(case in self.plans for case in self.problem.cases):
            why = self.not_covered[0].diagnostics[0]
            return Suspect(
                message=f"nothing was checked: line {why.line}: the plan's require covers none of the "
                f"declared shapes ({why.message})"
            )
        return None

    def _placed(self, one: Planned) -> tuple[Diagnostic, ...]:
        """What a plan refuses, with the shape where that is none of the person's."""
        if one.case in self.problem.cases or not one.diagnostics:
            return one.diagnostics
        first, *others = one.diagnostics
        told = (
            f"at {one.case.label}, a shape the referee adds: {first.message}; if such shapes are not meant, "
            "say so with require(...) in the plan"
        )
        return first.model_copy(update={"message": told}), *others

    def _probe(self) -> None:
        """Look for sizes at which the plan does what no proof makes it do, and plan for them."""
        with self._clock("plan"):
            program = parse(self.kernel.source)
            numbers = tuple(sorted({*compared(self.kernel.source), *handed(self.plans.values())}))
            told = bool(numbers) or any(one.path for one in self.taken)
            self.taken = [self._taken(one.case, one.path, numbers) for one in self.taken]
            offered = candidates(self.problem, program, numbers, self.reach)
            offered = offered if told else offered[: self.reach.always]
            far = [case for case in spread(self.problem, self.reach) if case not in offered] if told else []
            metas = [(case, tuple(self.problem.metas(case).items())) for case in (*offered, *far)]
            if "alignment" in self.kernel.source:
                metas += [unaligned(self.problem, case) for case in offered]
            planned = plan_cases(program, metas, self.target) if metas else ()
            able = {one.case: one for one in planned if self._able(one)}
            further = [self._taken(one.case, one.path, numbers) for one in able.values()]
            near = {one.path for one in (*self.taken, *further) if one.case not in far}
            further = [one for one in further if one.case not in far or one.path not in near]
            tried = [one for one in self.taken if self._is_run(one.case)]
            declared = {one.path for one in self.taken if one.case in self.problem.cases}
            first = [case for case in offered[: self.reach.always] if case in able]
            asked = chosen(tried, further, declared, (self.problem, self.reach))
            self.probes = list(dict.fromkeys((*first, *asked)))
            self.taken += [one for one in further if one.case in self.probes]
            self.plans |= {case: plan for case in self.probes if (plan := able[case].plan)}

    def _lay_otherwise(self) -> None:
        """Plan for inputs that lie otherwise than declared, where the plan does not turn them away."""
        with self._clock("plan"):
            program = parse(self.kernel.source)
            tried = [one for one in self.taken if one.case in (*self.problem.proofs, *self.probes)]
            laid = plans_laid_otherwise(self.problem, program, tried, self.target)
        self.laid = {case.label: unlike_declared(self.problem, dict(p.arguments)) for case, p in laid.items()}
        self.probes += laid
        self.plans |= laid

    def _able(self, one: Planned) -> bool:
        """What a plan turns away or cannot do at sizes nobody declared is not held against it."""
        return one.plan is not None and not unlike_outputs(self.problem, one.case, one.plan)

    def _taken(self, case: Case, path: Path, numbers: tuple[int, ...]) -> Taken:
        return Taken(case, (*path, *beside(case.size_map, numbers)))

    def _is_run(self, case: Case) -> bool:
        return case in self.problem.proofs

    def _facts(self) -> tuple[PlanFacts, ...]:
        return tuple(facts(self.plans[c], c.label) for c in self.problem.cases if c in self.plans)

    def _uncovered_checks(self) -> tuple[Check, ...]:
        return tuple(
            Check(case=one.case.label, inputs="", seed=0, covered=False, note=one.diagnostics[0].message)
            for one in self.not_covered
        )

    # -------------------------------------------------------------------------------- compile

    def _compiled(self) -> Outcome | None:
        instances = [i for c in self.problem.cases if c in self.plans for i in self.plans[c].instances]
        with self._clock("compile"):
            report = compile_kernel(self.kernel.source, dict.fromkeys(instances), self.target.arch)
        if isinstance(report, CompileFailed):
            return report
        self.compiled = report
        for case, plan in self.plans.items():
            told = None if case in self.probes else not_together(self.target, plan, report)
            if told is not None:
                return LaunchFailed(case=case.label, diagnostics=(told,))
        return None

    # -------------------------------------------------------------------------------- run

    def _ran(self) -> Outcome:
        self.on_stage("running")
        trials, own = self._trials()
        if not trials:
            return Suspect(
                message="nothing was checked: the kernel covers no size small enough to run on the emulator"
            )
        request = TrialRequest(
            problem=self.problem,
            source=self.kernel.source,
            trials=trials,
            options=self.options,
            own_tensors=own,
            eager=self.problem.digest not in _EAGER,
            kept=self.kept,
        )
        limits = Limits(
            wall_s=self.options.wall_s,
            cpu_s=self.options.cpu_s,
            memory_bytes=self.options.memory_bytes,
        )
        result = self._asked(request.model_dump_json().encode(), limits)
        if isinstance(result, Raised) and not _kernels_own(result):
            # Nothing of the kernel's runs there: once more, in case the machine only stumbled.
            self.started, self.done = None, []
            result = self._asked(request.model_dump_json().encode(), limits)
        match result:
            case Returned(payload=payload):
                return self._answered(payload)
            case Expired(limit_s=limit_s):
                return TimedOut(case=self._at(), limit_s=limit_s, message=f"{self._during()}; {_OWN_LIMIT}")
            case Died(message=message, stderr_tail=tail):
                return Crashed(case=self._at(), message=joined(message, tail, self._during()))
            case Raised() if _kernels_own(result):
                return Crashed(case=self._at(), message=f"it ran out of memory, {self._during()}")
            case Raised(type=kind, message=message):
                name = "" if kind == "DeviceError" else f"{kind}: "
                raise DeviceError(f"judging failed {self._during()}: {name}{message}")

    def _asked(self, request: bytes, limits: Limits) -> Result:
        with self._clock("run"):
            return torch_ready().call("workbench.referee.trial:run", request, limits, self._heard)

    def _trials(self) -> tuple[tuple[Trial, ...], bool]:
        """Cases to run, and whether the first is also run on the person's own tensors."""
        cases = [case for case in self.problem.proofs if case in self.plans]
        if not cases:
            cases = [
                c for c in self.problem.cases if c in self.plans and self.problem.elements(c) <= self._most
            ]
        first = self.problem.cases[0]
        own = self.problem.own_inputs and first in self.plans
        if own and (made := matrix.elements(Trial(case=first, plan=self.plans[first]))) > self._most:
            own, note = False, f"{made} elements are too many for the emulator: smaller sizes are checked"
            self.left_out = (Check(case=first.label, inputs=matrix.YOURS, seed=0, covered=False, note=note),)
        if own:
            cases = [first, *(case for case in cases if case != first)]
        trials = [Trial(case=case, plan=self.plans[case]) for case in cases]
        known = {trial.plan for trial in trials}
        again = [c for c, plan in self.plans.items() if is_variant(c.label) and plan not in known]
        again = [c for c in again if c not in self.probes]
        trials += [Trial(case=case, plan=self.plans[case], once=True) for case in again if trials]
        trials += [Trial(case=c, plan=self.plans[c], once=True, probe=True) for c in self.probes if trials]
        return tuple(t.model_copy(update={"room": self._room(t)}) for t in trials), own

    def _room(self, trial: Trial) -> int:
        alone = trial.case.label.removesuffix(ONE_SM) + ONE_SM
        on_one_sm = next((plan for case, plan in self.plans.items() if case.label == alone), None)
        return LEAST_ROOM if trial.plan == on_one_sm else self.target.sm_count

    @property
    def _most(self) -> int:
        return self.options.most_elements

    def _heard(self, message: bytes) -> None:
        try:
            said = MESSAGE.validate_json(message)
        except ValidationError:
            return  # garbled: the kernel may have written over its process; the answer will show
        if isinstance(said, CheckStarted):
            self.started = said
        else:
            self.done.append(said)

    def _answered(self, payload: bytes) -> Outcome:
        try:
            report = TrialReport.model_validate_json(payload)
        except ValidationError:
            return Crashed(case=self._at(), message="the process gave an answer that makes no sense")
        self.seconds |= dict(report.seconds)
        self.printed = report.printed
        if report.eager:
            _EAGER[self.problem.digest] = {one.case: one.operations for one in report.eager}
        if isinstance(report.outcome, Passed):
            return self._covering(report.outcome)
        return report.outcome

    def _covering(self, passed: Passed) -> Passed:
        """The verdict, with what it says nothing of, and the layouts of inputs that it is about."""
        labels = tuple(dict.fromkeys(one.case.label for one in self.not_covered))
        ran = dict.fromkeys(done.check.case for done in self.done)
        laid = dict.fromkeys(self.laid[label] for label in ran if label in self.laid)
        return passed.model_copy(update={"not_covered": labels, "layouts": tuple(laid)})

    def _raised(self, raised: Raised) -> Outcome:
        """A Python exception in the worker: the machine's fault unless the kernel's code had run."""
        no_memory = raised.type == "MemoryError" or "allocate memory" in raised.message
        before = self.started is None or (raised.type == "ProblemError" and not self.done)
        if raised.type == "DeviceError" or (before and not no_memory):
            raise DeviceError(f"{raised.type}: {raised.message}")
        why = "it ran out of memory" if no_memory else f"{raised.type}: {raised.message}"
        return Crashed(case=self._at(), message=joined(why, "", self._during()))

    def _at(self) -> str:
        return self.started.case if self.started else self.problem.cases[0].label

    def _during(self) -> str:
        if self.started is None:
            return "before the first check"
        return f"during the check on {self.started.inputs} inputs, seed {self.started.seed}"

    # -------------------------------------------------------------------------------- results

    def _counts(self) -> tuple[Counts, ...]:
        return tuple(done.report.counts for done in self.done if done.report.counts is not None)

    def _notes(self) -> tuple[str, ...]:
        return ()

    def _said_of_inputs(self) -> tuple[str, ...]:
        said = (part for done in self.done for part in done.check.note.split("; ") if NO_NUMBERS in part)
        return tuple(dict.fromkeys(said))

    def _remark(self) -> None:
        """Of a kernel that is not right, add what the emulator's compiler doubts to the warnings.

        It may doubt what is in order, so that of a right kernel nothing is said.
        """
        if self.compiled is None or not self.done:
            return
        known = {warning.line for warning in self.compiled.warnings}
        remarks = [one for one in self.done[-1].report.remarks if one.line not in known]
        warnings = (*self.compiled.warnings, *dict.fromkeys(remarks))
        self.compiled = self.compiled.model_copy(update={"warnings": warnings})

    def told_by_printf(self, passed: bool) -> Printed | None:
        """What the kernel printed in the check that failed; of one that passed, in the first."""
        told = [
            done.report.printed.model_copy(update={"inputs": done.check.inputs})
            for done in self.done
            if done.report.printed is not None
        ]
        if not told or self.printed is not None:
            return self.printed
        return told[0] if passed else told[-1]

    def _not_run(self) -> tuple[str, ...]:
        """Which declared sizes make the plan do something that no check saw."""
        ran = {done.check.case for done in self.done}
        left = unexercised(self.problem, self.taken, [c for c in self.plans if c.label in ran])
        if not self.problem.proofs or not left:
            return ()
        where = ", ".join(left)
        return (f"at {where} the plan takes a way that nothing small enough for the emulator takes: not run",)

    def _times(self) -> tuple[CaseTime, ...]:
        by_label = {case.label: plan for case, plan in self.plans.items()}
        probes = {case.label for case in self.probes}
        seen = [
            Observation(by_label[done.check.case], done.report.launches, done.report.counts.sites)
            for done in self.done
            if done.report.counts is not None
            and not is_variant(done.check.case)
            and done.check.case not in probes
        ]
        assert self.compiled is not None
        declared = {case.label: self.plans[case] for case in self.problem.cases if case in self.plans}
        eager = _EAGER.get(self.problem.digest, {})
        return roofline.case_times(self.target, self.problem, declared, self.compiled, seen, eager)

    @contextmanager
    def _clock(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = time.perf_counter() - started


def _kernels_own(raised: Raised) -> bool:
    """True where a Python exception in the process that judges is the plan's doing: memory it asked for."""
    return raised.type == "MemoryError" or "allocate memory" in raised.message


def joined(message: str, tail: str, during: str) -> str:
    """What ended a process, the last it wrote, and when."""
    last = next((line.strip() for line in reversed(tail.splitlines()) if line.strip()), "")
    said = f" ({last[:200]})" if last and last not in message else ""
    return f"{message}{said}, {during}"
