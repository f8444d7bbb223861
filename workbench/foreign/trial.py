"""The trusted child: draws inputs, has the solution called, compares, decides.

Owns seeds, oracle, bounds and the verdict; the solution runs in another process (inmate.py) that was
forked before any of them existed. Imports torch and never runs a line of the solution.
"""

from __future__ import annotations

import base64
import pickle
import random
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from workbench.emulator.buffers import same_bits
from workbench.errors import ProblemError
from workbench.foreign import cases, harness, verdicts
from workbench.foreign.arena import Arena, Full
from workbench.foreign.hatch import Decided, Hatch, decide
from workbench.foreign.inmate import Ended, Inmate
from workbench.foreign.protocol import Called, Loaded, Profiled, Ready
from workbench.foreign.timing import Bench, NotTimed
from workbench.foreign.values import Fence, ForeignReport, ForeignRequest, ForeignTime, Provenance
from workbench.model import Case, Check, CompileFailed, Crashed, Mismatch, Outcome, Passed, Suspect, TimedOut
from workbench.numerics.inputs import draw
from workbench.numerics.kinds import KINDS
from workbench.problem.capture import init_expression
from workbench.problem.reference import Reference
from workbench.problem.running import evaluate, run_source, without_gpu
from workbench.referee.expectation import Expectation, held_against

LATE_S = 0.03
"""How long after a call an output is looked at once more."""


def run(payload: bytes) -> bytes:
    """Worker function: a ``ForeignRequest`` in, a ``ForeignReport`` out."""
    request = ForeignRequest.model_validate_json(payload)
    inbox, outbox = Arena(), Arena()
    allowance = request.options.allowance
    allowance = allowance.on_gpu() if request.options.device == "cuda" else allowance
    with Inmate(
        lambda channel, nonce, fences: harness.serve(inbox, outbox, channel, nonce, fences), allowance
    ) as inmate:
        torch.set_num_threads(1)
        report = _Trial(request, inmate, inbox, outbox).report()
    return report.model_dump_json().encode()


@dataclass
class _Trial:
    request: ForeignRequest
    inmate: Inmate
    inbox: Arena
    outbox: Arena
    checks: list[Check] = field(default_factory=list)
    fences: tuple[Fence, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    not_covered: list[str] = field(default_factory=list)
    provenance: Provenance | None = None
    times: list[ForeignTime] = field(default_factory=list)
    claims: tuple[str, ...] = ()
    build: str = ""
    calls: int = 0
    seen: set[str] = field(default_factory=set)
    deterministic: bool = True

    def __post_init__(self) -> None:
        self.problem, self.options = self.request.problem, self.request.options
        replay = self.options.replay
        self.base = secrets.randbelow(2**48) if replay is None else replay
        self.reference = Reference(self.problem)
        self.hatch = Hatch(self.problem, self.options, self.inmate, self.inbox, self.outbox)

    def report(self) -> ForeignReport:
        """Ask everything; the first wrong answer decides."""
        try:
            outcome = self._outcome()
        except Decided as decided:
            outcome = decided.outcome
        except Ended as ended:
            outcome = self._ended(ended)
        except Full as full:
            outcome = Suspect(message=f"nothing was judged: the tensors are too large for this lane ({full})")
        return ForeignReport(
            outcome=outcome,
            checks=tuple(self.checks),
            fences=self.fences,
            provenance=self.provenance,
            times=tuple(self.times),
            notes=tuple(self.hatch.notes),
            calls=self.calls,
            build=self.build,
            replay=self.base,
            versions=(("torch", torch.__version__),),
            seconds=tuple((stage, round(s, 3)) for stage, s in self.seconds.items()),
        )

    def _ended(self, ended: Ended) -> Outcome:
        if ended.expired_s is not None:
            return TimedOut(case=self.hatch.at, limit_s=ended.expired_s, message=f"{ended} {self._during()}")
        return Crashed(case=self.hatch.at, message=f"{ended}, {self._during()}")

    def _during(self) -> str:
        return f"at {self.hatch.at}" if self.hatch.at else "while the solution was loaded"

    def _outcome(self) -> Outcome:
        with self._clock("load"):
            self._load()
        tried = cases.cases_of(self.problem, self.options.most_elements)
        if not tried:
            least = min(self.problem.elements(case) for case in self.problem.cases)
            told = f"the smallest size has {least:,} elements, and {cases.LARGEST_ELEMENTS:,} are the most"
            return Suspect(message=f"nothing was checked: {told}; give the problem's inputs a smaller size")
        with self._clock("calls"):
            covered = self._calls(tried)
            main = covered[0]
            self._state(main)
        with self._clock("long run"):
            self._long_run(min(covered, key=self.problem.elements))
        with self._clock("profile"):
            self._profiled(max(covered, key=self.problem.elements))
        if self.options.timing == "any" or (self.options.timing == "gpu" and self.options.device == "cuda"):
            with self._clock("timing"):
                self._timed()
        return Passed(not_covered=tuple(self.not_covered), deterministic=self.deterministic)

    # -------------------------------------------------------------------------------- loading

    def _load(self) -> None:
        allowance = self.options.allowance
        self.fences = self.hatch.valid(Ready, self.inmate.hear(allowance.load_s)).fences
        question = {
            "kind": "load",
            "solution": self.request.solution,
            "init": self._init(),
            "seed": cases.seed(self.base, -1) % 2**31,
            "device": self.options.device,
            "contract": self.problem.contract,
            "memory_bytes": self.inmate.allowance.memory_bytes,
        }
        loaded = self.hatch.valid(Loaded, self.inmate.ask(question, allowance.load_s))
        if loaded.raised is not None:
            raise Decided(CompileFailed(stage="solution", diagnostics=verdicts.diagnostics(loaded.raised)))
        if loaded.missing:
            told = verdicts.diagnostic("there is no class ModelNew that derives from torch.nn.Module")
            raise Decided(CompileFailed(stage="solution", diagnostics=(told,)))
        self.claims, self.build = loaded.claims, loaded.build

    def _init(self) -> str:
        """Constructor arguments of the reference, for ``ModelNew``."""
        problem = self.problem
        value: Any = []
        expression = (
            init_expression(problem.source) if problem.kind in ("module_class", "kernelbench") else ""
        )
        if expression:
            with without_gpu():
                roots = (expression.removesuffix("()"),)
                value = evaluate(expression, run_source(problem.source, problem.payload, roots))
        try:
            return base64.b64encode(pickle.dumps(value)).decode()
        except Exception as error:
            raise ProblemError(f"the constructor's arguments cannot be sent to a process: {error}") from error

    # -------------------------------------------------------------------------------- calls

    def _calls(self, tried: tuple[Case, ...]) -> list[Case]:
        """Check call after call; returns the cases the solution handles, the main one first."""
        covered: list[Case] = []
        declared = {case.sizes for case in self.problem.cases}
        waiting = list(cases.calls_of(self.problem, tried, self.base))
        while waiting:
            planned = waiting.pop(0)
            must = planned.case.sizes in declared or planned.case in covered
            if not self._check(planned, must):
                self.not_covered.append(planned.case.label)
                waiting = [call for call in waiting if call.case != planned.case]
                if not covered:  # the next case takes the place of the first
                    left = tuple(dict.fromkeys(call.case for call in waiting))
                    waiting = list(cases.calls_of(self.problem, left, self.base + len(self.not_covered)))
            elif planned.case not in covered:
                covered.append(planned.case)
        if not covered:
            told = f"it raises at every size tried: {', '.join(self.not_covered)}"
            raise Decided(Suspect(message=f"nothing was checked: {told}"))
        return covered

    def _check(self, planned: cases.PlannedCall, must: bool) -> bool:
        """One call held against the oracle. False when the solution raised where it may."""
        tensors = self._tensors(planned)
        if tensors is None:
            return True
        expected = held_against(self.problem, self.reference, planned.case.size_map, tensors)
        called, got = self._call(planned.case, expected, planned.fresh, f"{planned.inputs} inputs")
        if called.raised is not None:
            if must:
                raise Decided(verdicts.failed(called.raised, planned.case.label))
            self.checks.append(
                Check(case=planned.case.label, inputs=planned.inputs, seed=planned.seed, covered=False,
                      note=f"{called.raised.type}: {called.raised.message}"[:300])
            )  # fmt: skip
            return False
        differences = verdicts.differences(got, expected)
        self.checks.append(
            Check(case=planned.case.label, inputs=planned.inputs, seed=planned.seed, differences=differences,
                  note=expected.note)
        )  # fmt: skip
        decide(verdicts.mismatch(differences, planned.case.label, f"on {planned.inputs} inputs"))
        return True

    def _call(
        self, case: Case, expected: Expectation, fresh: bool, doing: str
    ) -> tuple[Called, tuple[Tensor, ...]]:
        """Weights, then one call; form of the outputs, inputs and tripwires are looked at here."""
        allowance = self.options.allowance
        self.hatch.at = f"{case.label}, {doing}"
        self.hatch.hand_over(case, expected.tensors)
        self.hatch.outbox.clear()
        slots = self.hatch.slots(expected.bounds)
        arguments = self.hatch.arguments(expected.tensors, returned=True)
        question = {"kind": "call", "arguments": arguments, "slots": slots, "fresh": fresh}
        seconds = allowance.call_s if case.label in self.seen else allowance.first_call_s
        called = self.hatch.valid(Called, self.inmate.ask(question, seconds))
        self.seen.add(case.label)
        if called.raised is not None:
            return called, ()
        decide(verdicts.form(called, slots, case.label, self.options.device))
        decide(verdicts.wires(called))
        self.hatch.written(arguments, expected.tensors, case)
        self.calls += 1
        self.hatch.notes |= dict.fromkeys(verdicts.remarks(called))
        return called, self.hatch.read(slots)

    # -------------------------------------------------------------------------------- tensors

    def _tensors(self, planned: cases.PlannedCall) -> Mapping[str, Tensor] | None:
        if planned.inputs == cases.YOURS:
            return self.reference.own_tensors()
        kind = next(kind for kind in KINDS if kind == planned.inputs)
        return draw(self.problem, planned.case, kind, planned.seed)

    # -------------------------------------------------------------------------------- state

    def _state(self, case: Case) -> None:
        """What a call leaves behind: late writes, work in the background, memory of earlier calls."""
        expected = [self._expected(case, turn) for turn in (9001, 9002)]
        _, first = self._call(case, expected[0], True, "a call at new addresses")
        decide(self._wrong(first, expected[0], case, "on a call at new addresses"))
        self._late(expected[0], first)
        _, second = self._call(case, expected[1], False, "new contents at the same addresses")
        decide(self._wrong(second, expected[1], case, "on new contents at the same addresses"))
        _, again = self._call(case, expected[0], False, "earlier contents once more")
        if not same_bits(first, again):
            self.deterministic = False
            decide(self._wrong(again, expected[0], case, "on inputs it has seen before"))
        if self.inmate.others() > 0:
            raise Decided(Suspect(message="a process the solution started is still alive after its calls"))

    def _late(self, expected: Expectation, got: tuple[Tensor, ...]) -> None:
        """Look at the outputs of a call that is over once more."""
        if self.inmate.still_busy(LATE_S):
            raise Decided(Suspect(message="a thread of the solution goes on working after its call returned"))
        self.hatch.outbox.clear()
        slots = self.hatch.slots(expected.bounds)
        self.hatch.asked(Called, {"kind": "again", "slots": slots})
        if not same_bits(self.hatch.read(slots), got):
            raise Decided(Suspect(message="an output changed after the call that returned it"))

    def _expected(self, case: Case, turn: int) -> Expectation:
        tensors = draw(self.problem, case, "normal", cases.seed(self.base, turn))
        return held_against(self.problem, self.reference, case.size_map, tensors)

    def _wrong(
        self, got: tuple[Tensor, ...], expected: Expectation, case: Case, when: str
    ) -> Mismatch | None:
        return verdicts.mismatch(verdicts.differences(got, expected), case.label, when)

    def _long_run(self, case: Case) -> None:
        """Many calls in a row, inputs rewritten in place; each output is compared."""
        weights = self._expected(case, 9100).tensors
        held = {spec.name: weights[spec.name] for spec in self.problem.tensors if spec.role != "input"}
        pool = [self._pooled(case, 9101 + turn, held) for turn in range(cases.POOL)]
        self.hatch.hand_over(case, weights)
        self.hatch.outbox.clear()
        nbytes = sum(bound.expected.numel() * 8 for bound in pool[0].bounds)
        count = cases.run_length(nbytes, self.options.calls)
        self.hatch.at = f"{case.label}, {count} calls in a row"
        arguments = [self.hatch.arguments(expected.tensors, returned=False) for expected in pool]
        dice = random.Random(cases.seed(self.base, 9100))
        order = [dice.randrange(cases.POOL) for _ in range(count)]
        slots = [self.hatch.slots(pool[chosen].bounds) for chosen in order]
        question = {"kind": "run", "arguments": arguments, "order": order, "slots": slots}
        called = self.hatch.asked(Called, {**question, "until_s": self.options.long_run_s})
        if called.raised is not None:
            raise Decided(verdicts.failed(called.raised, case.label))
        decide(verdicts.form(called, slots[0], case.label, self.options.device))
        if not 0 < called.done <= count:
            raise Decided(
                Crashed(case=self.hatch.at, message="the process gave an answer that makes no sense")
            )
        decide(verdicts.wires(called))
        self._compare_run(case, pool, order[: called.done], slots)
        self._late(pool[0], self.hatch.read(slots[called.done - 1]))

    def _pooled(self, case: Case, turn: int, held: Mapping[str, Tensor]) -> Expectation:
        tensors = draw(self.problem, case, "normal", cases.seed(self.base, turn))
        return held_against(self.problem, self.reference, case.size_map, {**tensors, **held})

    def _compare_run(
        self, case: Case, pool: list[Expectation], order: list[int], slots: list[list[dict[str, Any]]]
    ) -> None:
        right: dict[int, tuple[Tensor, ...]] = {}
        for turn, chosen in enumerate(order):
            got = self.hatch.read(slots[turn])
            if chosen not in right or not same_bits(got, right[chosen]):
                decide(self._wrong(got, pool[chosen], case, f"on call {turn + 1} in a row"))
                self.deterministic &= chosen not in right
                right[chosen] = got
        self.calls += len(order)

    def _profiled(self, case: Case) -> None:
        """Who did the work; a kernel that is claimed must have run."""
        self.hatch.at = f"{case.label}, a profile"
        expected = self._expected(case, 9200)
        self.hatch.inbox.clear()
        arguments = self.hatch.arguments(expected.tensors, returned=False)
        profiled = self.hatch.asked(Profiled, {"kind": "profile", "arguments": arguments})
        if profiled.raised is not None:
            self.hatch.notes[f"no profile: {profiled.raised.type}: {profiled.raised.message[:200]}"] = None
            return
        self.provenance = Provenance(
            shares=profiled.shares,
            own_calls=profiled.own,
            claims=self.claims,
            clock=profiled.clock,
            why_blind=profiled.why_blind,
            own_kernels=profiled.own_kernels,
            defined=profiled.defined,
            launches=profiled.launches,
        )
        decide(verdicts.unjoined(profiled))
        decide(verdicts.ghost(self.provenance))

    def _timed(self) -> None:
        """Every declared case that fits; outputs of timed calls are compared, whatever comes of the time."""
        bench = Bench(self.hatch, self.base)
        for case in self.problem.cases:
            large = self.problem.elements(case) > self.options.most_elements
            if large and self.options.device == "cpu":
                self.hatch.notes[f"{case.label} was not timed: too large for the CPU"] = None
                continue
            self.hatch.at = f"{case.label}, timed calls"
            try:
                time = bench.timed(case)
            except NotTimed as why:
                self.hatch.notes[f"{case.label} was not timed: {why}"] = None
                continue
            self.times.append(time)
            self.calls += time.checked
            if time.suspicion:
                raise Decided(Suspect(message=f"{case.label}: {time.suspicion}"))
        if self.inmate.others() > 0 or self.inmate.still_busy(LATE_S):
            raise Decided(Suspect(message="something the solution started goes on working after timed calls"))

    @contextmanager
    def _clock(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = time.perf_counter() - started
