"""The trusted child: draws inputs, has the solution called, compares, decides.

Owns seeds, oracle, bounds and the verdict; the solution runs in another process (inmate.py) that was
forked before any of them existed. Imports torch and never runs a line of the solution.
"""

from __future__ import annotations

import base64
import pickle
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from pydantic import ValidationError
from torch import Tensor

from workbench.errors import ProblemError
from workbench.foreign import cases, harness, verdicts
from workbench.foreign.arena import Arena, Full
from workbench.foreign.inmate import Ended, Inmate
from workbench.foreign.protocol import Answer, Called, Loaded, Profiled, Ready, Weighed
from workbench.foreign.values import Fence, ForeignReport, ForeignRequest, Provenance
from workbench.model import Case, Check, CompileFailed, Crashed, Mismatch, Outcome, Passed, Suspect, TimedOut
from workbench.numerics.dtypes import TORCH
from workbench.numerics.inputs import draw
from workbench.numerics.kinds import KINDS
from workbench.problem.capture import init_expression
from workbench.problem.reference import Reference
from workbench.problem.running import evaluate, run_source, without_gpu
from workbench.referee.expectation import Expectation, held_against

A = TypeVar("A", bound=Answer)
LATE_S = 0.03
"""How long after a call an output is looked at once more."""


def run(payload: bytes) -> bytes:
    """Worker function: a ``ForeignRequest`` in, a ``ForeignReport`` out."""
    request = ForeignRequest.model_validate_json(payload)
    inbox, outbox = Arena(), Arena()
    with Inmate(
        lambda channel, nonce, fences: harness.serve(inbox, outbox, channel, nonce, fences),
        request.options.allowance,
    ) as inmate:
        torch.set_num_threads(1)
        report = _Trial(request, inmate, inbox, outbox).report()
    return report.model_dump_json().encode()


class Decided(Exception):
    """The verdict is known before all questions were asked."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.kind)
        self.outcome = outcome


@dataclass
class _Trial:
    request: ForeignRequest
    inmate: Inmate
    inbox: Arena
    outbox: Arena
    checks: list[Check] = field(default_factory=list)
    fences: tuple[Fence, ...] = ()
    notes: dict[str, None] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    not_covered: list[str] = field(default_factory=list)
    provenance: Provenance | None = None
    claims: tuple[str, ...] = ()
    build: str = ""
    calls: int = 0
    seen: set[str] = field(default_factory=set)
    at: str = ""
    deterministic: bool = True

    def __post_init__(self) -> None:
        self.problem, self.options = self.request.problem, self.request.options
        replay = self.options.replay
        self.base = secrets.randbelow(2**48) if replay is None else replay
        self.reference = Reference(self.problem)

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
            notes=tuple(self.notes),
            calls=self.calls,
            build=self.build,
            replay=self.base,
            versions=(("torch", torch.__version__),),
            seconds=tuple((stage, round(s, 3)) for stage, s in self.seconds.items()),
        )

    def _ended(self, ended: Ended) -> Outcome:
        if ended.expired_s is not None:
            return TimedOut(case=self.at, limit_s=ended.expired_s, message=f"{ended} {self._during()}")
        return Crashed(case=self.at, message=f"{ended}, {self._during()}")

    def _during(self) -> str:
        return f"at {self.at}" if self.at else "while the solution was loaded"

    def _outcome(self) -> Outcome:
        with self._clock("load"):
            self._load()
        tried = cases.cases_of(self.problem, self.options.most_elements)
        if not tried:
            return Suspect(message="nothing was checked: every size of the problem is too large to run here")
        with self._clock("calls"):
            covered = self._calls(tried)
            main = covered[0]
            self._state(main)
        with self._clock("long run"):
            self._long_run(min(covered, key=self._output_bytes))
        with self._clock("profile"):
            self._profiled(max(covered, key=self._output_bytes))
        return Passed(not_covered=tuple(self.not_covered), deterministic=self.deterministic)

    # -------------------------------------------------------------------------------- loading

    def _load(self) -> None:
        allowance = self.options.allowance
        self.fences = self._valid(Ready, self.inmate.hear(allowance.load_s)).fences
        question = {
            "kind": "load",
            "solution": self.request.solution,
            "init": self._init(),
            "seed": cases.seed(self.base, -1) % 2**31,
            "device": self.options.device,
        }
        loaded = self._valid(Loaded, self.inmate.ask(question, allowance.load_s))
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
        self._decide(verdicts.mismatch(differences, planned.case.label, f"on {planned.inputs} inputs"))
        return True

    def _call(
        self, case: Case, expected: Expectation, fresh: bool, doing: str
    ) -> tuple[Called, tuple[Tensor, ...]]:
        """Weights, then one call; form of the outputs, inputs and tripwires are looked at here."""
        allowance = self.options.allowance
        self.at = f"{case.label}, {doing}"
        self._hand_over(case, expected.tensors)
        self.outbox.clear()
        slots = self._slots(expected)
        arguments = self._arguments(expected.tensors, returned=True)
        question = {"kind": "call", "arguments": arguments, "slots": slots, "fresh": fresh}
        seconds = allowance.call_s if case.label in self.seen else allowance.first_call_s
        called = self._valid(Called, self.inmate.ask(question, seconds))
        self.seen.add(case.label)
        if called.raised is not None:
            return called, ()
        self._decide(verdicts.form(called, slots, case.label, self.options.device))
        self._decide(verdicts.wires(called))
        self._written(arguments, expected.tensors, case)
        self.calls += 1
        self.notes |= dict.fromkeys(verdicts.remarks(called))
        return called, self._read(slots)

    def _asked(self, shape: type[A], question: dict[str, Any]) -> A:
        return self._valid(shape, self.inmate.ask(question, self.options.allowance.call_s))

    def _valid(self, shape: type[A], answer: Mapping[str, Any]) -> A:
        try:
            if answer.get("raised") is not None and not shape.model_fields.keys() <= answer.keys():
                return shape.model_validate({"fences": ()} | dict(answer) if shape is Ready else answer)
            return shape.model_validate(answer)
        except ValidationError:
            raise Decided(
                Crashed(case=self.at, message="the process gave an answer that makes no sense")
            ) from None

    def _decide(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            raise Decided(outcome)

    # -------------------------------------------------------------------------------- tensors

    def _tensors(self, planned: cases.PlannedCall) -> Mapping[str, Tensor] | None:
        if planned.inputs == cases.YOURS:
            return self.reference.own_tensors()
        kind = next(kind for kind in KINDS if kind == planned.inputs)
        return draw(self.problem, planned.case, kind, planned.seed)

    def _hand_over(self, case: Case, tensors: Mapping[str, Tensor]) -> None:
        """Give the solution's module the reference's parameters and buffers, with these values."""
        held = [spec for spec in self.problem.tensors if spec.role != "input"]
        self.inbox.clear()
        if not held:
            return
        notes = [{**self.inbox.put(tensors[spec.name]), "path": spec.path or spec.name} for spec in held]
        weighed = self._asked(Weighed, {"kind": "weights", "notes": notes})
        if weighed.raised is not None:
            raise Decided(verdicts.failed(weighed.raised, case.label))
        self._decide(verdicts.weights(weighed, case.label))
        if weighed.more:
            self.notes[f"tensors of ModelNew that the reference lacks: {', '.join(weighed.more[:5])}"] = None

    def _arguments(self, tensors: Mapping[str, Tensor], returned: bool) -> list[dict[str, Any]]:
        """Notes for the call's arguments; tensors go into the inbox behind what is there."""
        statics = {static.name: static.value for static in self.problem.statics}
        notes: list[dict[str, Any]] = []
        for name in self.problem.signature:
            if name not in tensors:
                notes.append({"name": name, "value": statics[name]})
                continue
            note = {**self.inbox.put(tensors[name]), "name": name}
            if returned:
                note["after"] = self._poisoned(tensors[name].numel() * tensors[name].element_size())
            notes.append(note)
        return notes

    def _slots(self, expected: Expectation) -> list[dict[str, Any]]:
        """Places for the outputs, filled with NaN (all bits set) so that nothing old can be read."""
        slots = []
        for bound in expected.bounds:
            dtype = TORCH[bound.dtype]
            nbytes = bound.expected.numel() * torch.empty((), dtype=dtype).element_size()
            slots.append(
                {
                    "dtype": bound.dtype,
                    "torch": str(dtype),
                    "shape": list(bound.expected.shape),
                    "offset": self._poisoned(nbytes),
                }
            )
        return slots

    def _poisoned(self, nbytes: int) -> int:
        """Offset of a new place in the outbox, all bits set."""
        offset = self.outbox.reserve(nbytes)
        self.outbox.view({"dtype": "u8", "shape": [nbytes], "offset": offset}).fill_(verdicts.POISON)
        return offset

    def _read(self, slots: list[dict[str, Any]]) -> tuple[Tensor, ...]:
        return tuple(self.outbox.view(slot).clone() for slot in slots)

    def _written(self, arguments: list[dict[str, Any]], tensors: Mapping[str, Tensor], case: Case) -> None:
        """Inputs must come back as they went."""
        for note in arguments:
            if "after" in note:
                back = self.outbox.view({**note, "offset": note["after"]}).clone()
                name = str(note["name"])
                self._decide(verdicts.inputs_back(name, case.label, back, tensors[name]))

    def _output_bytes(self, case: Case) -> int:
        return cases.elements(self.problem, case)

    # -------------------------------------------------------------------------------- state

    def _state(self, case: Case) -> None:
        """What a call leaves behind: late writes, work in the background, memory of earlier calls."""
        expected = [self._expected(case, turn) for turn in (9001, 9002)]
        _, first = self._call(case, expected[0], True, "a call at new addresses")
        self._decide(self._wrong(first, expected[0], case, "on a call at new addresses"))
        self._late(case, expected[0], first)
        _, second = self._call(case, expected[1], False, "new contents at the same addresses")
        self._decide(self._wrong(second, expected[1], case, "on new contents at the same addresses"))
        _, again = self._call(case, expected[0], False, "earlier contents once more")
        if not verdicts.same_bits(first, again):
            self.deterministic = False
            self._decide(self._wrong(again, expected[0], case, "on inputs it has seen before"))
        if self.inmate.others() > 0:
            raise Decided(Suspect(message="a process the solution started is still alive after its calls"))

    def _late(self, case: Case, expected: Expectation, got: tuple[Tensor, ...]) -> None:
        """Look at the outputs of a call that is over once more."""
        if self.inmate.still_busy(LATE_S):
            raise Decided(Suspect(message="a thread of the solution goes on working after its call returned"))
        self.outbox.clear()
        slots = self._slots(expected)
        self._asked(Called, {"kind": "again", "slots": slots})
        if not verdicts.same_bits(self._read(slots), got):
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
        self._hand_over(case, weights)
        self.outbox.clear()
        nbytes = sum(bound.expected.numel() * 8 for bound in pool[0].bounds)
        count = cases.run_length(self.problem, nbytes, self.options.calls)
        self.at = f"{case.label}, {count} calls in a row"
        arguments = [self._arguments(expected.tensors, returned=False) for expected in pool]
        order = [secrets.randbelow(cases.POOL) for _ in range(count)]
        slots = [self._slots(pool[chosen]) for chosen in order]
        question = {"kind": "run", "arguments": arguments, "order": order, "slots": slots}
        called = self._asked(Called, {**question, "until_s": self.options.long_run_s})
        if called.raised is not None:
            raise Decided(verdicts.failed(called.raised, case.label))
        self._decide(verdicts.form(called, slots[0], case.label, self.options.device))
        if not 0 < called.done <= count:
            raise Decided(Crashed(case=self.at, message="the process gave an answer that makes no sense"))
        self._decide(verdicts.wires(called))
        self._compare_run(case, pool, order[: called.done], slots)
        self._late(case, pool[0], self._read(slots[called.done - 1]))

    def _pooled(self, case: Case, turn: int, held: Mapping[str, Tensor]) -> Expectation:
        tensors = draw(self.problem, case, "normal", cases.seed(self.base, turn))
        return held_against(self.problem, self.reference, case.size_map, {**tensors, **held})

    def _compare_run(
        self, case: Case, pool: list[Expectation], order: list[int], slots: list[list[dict[str, Any]]]
    ) -> None:
        right: dict[int, tuple[Tensor, ...]] = {}
        for turn, chosen in enumerate(order):
            got = self._read(slots[turn])
            if chosen not in right or not verdicts.same_bits(got, right[chosen]):
                self._decide(self._wrong(got, pool[chosen], case, f"on call {turn + 1} in a row"))
                self.deterministic &= chosen not in right
                right[chosen] = got
        self.calls += len(order)

    def _profiled(self, case: Case) -> None:
        """Who did the work; a kernel that is claimed must have run."""
        self.at = f"{case.label}, a profile"
        expected = self._expected(case, 9200)
        self.inbox.clear()
        arguments = self._arguments(expected.tensors, returned=False)
        profiled = self._asked(Profiled, {"kind": "profile", "arguments": arguments})
        if profiled.raised is not None:
            self.notes[f"no profile: {profiled.raised.type}: {profiled.raised.message[:200]}"] = None
            return
        self.provenance = Provenance(shares=profiled.shares, own_calls=profiled.own, claims=self.claims)
        self._decide(verdicts.ghost(self.provenance))

    @contextmanager
    def _clock(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = time.perf_counter() - started
