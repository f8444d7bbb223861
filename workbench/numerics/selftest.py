"""Does a problem tell right from wrong? Asked once, at intake, before any kernel is judged.

Owns the answers that must fail on every problem (zeros, a copy of an input, nothing written, the
result for other inputs) and the question whether every tensor matters. The reference comes in as
callables, so that this stays below the problem's layer. Runs in a worker child.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from workbench.model import Case, Problem, Value, size_of
from workbench.numerics.bounds import OutputBound, bounds
from workbench.numerics.compare import largest_ratio
from workbench.numerics.conditioning import Oracle
from workbench.numerics.inputs import draw
from workbench.numerics.kinds import InputKind

Reference = Callable[[Mapping[str, Tensor]], tuple[Tensor, ...]]
Change = Literal["the verdict", "little", "nothing"]
"""What other values of one tensor change: an output by more than its bound, by less, or not at all."""
TRIALS: tuple[tuple[InputKind, int], ...] = (("normal", 11), ("scale 64", 12), ("offset", 13))
FURTHER: tuple[tuple[InputKind, int], ...] = (
    ("zero-one", 14), ("sparse", 15), ("special values", 16), ("special values", 17), ("special values", 18),
)  # fmt: skip
"""What is tried where those leave doubt: numbers that meet their equals, zeros, NaN and infinities."""
FAR = 8.0
"""Times the error allowed that a wrong answer must be off there: exact values have small errors."""
MOST_CASES = 3
ENOUGH = 2**18
"""Elements of the largest of them, where so many are as small: a million say no more, and take seconds."""
MOST_ELEMENTS = (2**20, 2**23)
"""Of the declared case, which is asked where small ones leave doubt, with what lies in between; of a larger
one, a part, and where that leaves doubt too, a larger part: the few blocks of a short text are all chosen."""
OTHER_SEED = 1000
_DRAWN = "Inputs are drawn at random, in the types and ranges of yours"
HARDLY = 1e-3
"""An output whose elements vary by less than this part of their size may be nearly constant."""
CLEARLY = 64.0
"""It is not where a constant answer is further off than this many times the error allowed."""


class Finding(Value):
    """One thing the self-test found; ``refuse`` means that no verdict on this problem would mean anything."""

    severity: Literal["refuse", "warn"]
    message: str


@dataclass(frozen=True, eq=False)
class _Trial:
    """The reference's results at one case, kind and seed, with their bounds."""

    case: Case
    kind: InputKind
    seed: int
    tensors: Mapping[str, Tensor]
    results: tuple[Tensor, ...]
    bounds: tuple[OutputBound, ...]
    viewed: frozenset[str] = frozenset()
    """Inputs in whose memory all results lie, with what was put there."""
    _known: dict[str, Change] = field(default_factory=dict)

    def changed(self, problem: Problem, name: str, call: Reference) -> Change:
        """What other values of one tensor alone do here; the reference is run for it once."""
        if name not in self._known:
            self._known[name] = _what_changes(problem, self, name, call)
        return self._known[name]


class SelfTest:
    """A problem's answers that must fail. ``call`` is the reference, ``oracle`` the same in float64.

    Both take all the problem's tensors by name. What was run is kept for what is asked next: each of
    a deep network's hundred parameters is changed alone, once for each trial. Whatever is found is true of
    all trials, so that another one is only run where something is.
    """

    def __init__(self, problem: Problem, call: Reference, oracle: Reference) -> None:
        self._problem = problem
        self._call = call
        self._oracle = oracle
        self._small = _asked(problem)
        self._left = [(case, kind) for case in self._small or problem.cases[:1] for kind in TRIALS]
        """Trials that are not run yet."""
        self._trials: list[_Trial] = []
        self._widened = False
        """Whether the declared case, or as much of it as time allows, is among the trials, or need not be."""

    def findings(self, rarer: bool = True) -> tuple[Finding, ...]:
        """Try them. With ``rarer``, what would be refused is tried on rarer values too.

        Raises whatever the reference raises.
        """
        declared = self._problem.cases[:1]
        findings = self._found() if self._trials else []
        while self._left and (findings or not self._trials):
            case, kind = self._left.pop(0)
            self._try((case,), (kind,))
            findings = self._found()
        if _refuses(findings) and not self._widened:
            self._widened = True
            if self._small:
                # Of small sizes it may be true alone: a hundred indices into five columns are all of them,
                # and few events leave nothing in an image of a given size.
                parts = [_within_reach(self._problem, declared[0], most) for most in MOST_ELEMENTS]
                for number, large in enumerate(dict.fromkeys(parts)):
                    with nullcontext() if large is declared[0] else suppress(Exception):
                        self._try((large,), TRIALS[:1] if number else TRIALS)
                    if not _refuses(findings := self._found()):
                        break
        if rarer and _refuses(findings):
            for kind in FURTHER:
                with suppress(Exception):  # as far as the reference takes them: a solver may raise at NaN
                    self._try(self._small or declared, (kind,))
                if not _refuses(findings := self._found()):
                    break
        return tuple(findings)

    def _try(self, cases: Sequence[Case], kinds: Sequence[tuple[InputKind, int]] = TRIALS) -> None:
        self._trials += _trials(self._problem, cases, self._call, self._oracle, kinds)

    def _found(self) -> list[Finding]:
        trials = self._trials
        matter = _tensors_that_do_not_matter(self._problem, trials, self._call)
        found = [*_answers_that_pass(trials), *_views(trials), *matter]
        return found if _refuses(found) else [*found, *_nearly_constant(trials)]


def _asked(problem: Problem) -> list[Case]:
    """The largest of the small cases."""
    proofs = sorted(problem.proofs, key=lambda case: problem.elements(case))
    enough = [case for case in proofs if problem.elements(case) <= ENOUGH]
    return (enough if len(enough) >= MOST_CASES else proofs)[-MOST_CASES:]


def _largest(problem: Problem, case: Case) -> int:
    """Elements of all tensors together, or of the largest result in between: pairs of few points are many."""
    inside = (out.dims for node in problem.graph.nodes for out in node.outs)
    counts = (math.prod(size_of(dim, case.size_map) for dim in dims) for dims in inside)
    return max(problem.elements(case), *counts, 0)


def _within_reach(problem: Problem, declared: Case, most: int) -> Case:
    """The declared case, sizes halved until it has no more elements: the reference may not take them.

    Of all sizes the one that saves most, and of those that save alike the largest: points are few beside the
    cells of a grid that each of a batch fills. What no size makes less stays.
    """
    case = declared
    while _largest(problem, case) > most and max(case.size_map.values(), default=0) > 1:
        sizes = sorted(case.sizes, key=lambda one: -one[1])
        halves = [_with_half(declared, case, symbol) for symbol, size in sizes if size > 1]
        smallest = min(halves, key=lambda half: _largest(problem, half))
        if _largest(problem, smallest) == _largest(problem, case):
            break
        case = smallest
    return case


def _with_half(declared: Case, case: Case, symbol: str) -> Case:
    sizes = {**case.size_map, symbol: case.size_map[symbol] // 2}
    return Case(label=f"{declared.label} in part", sizes=tuple(sizes.items()), origin="proof")


def _refuses(findings: list[Finding]) -> bool:
    return any(found.severity == "refuse" for found in findings)


def _trials(
    problem: Problem,
    cases: Sequence[Case],
    call: Reference,
    oracle: Reference,
    kinds: Sequence[tuple[InputKind, int]],
) -> Iterator[_Trial]:
    for case in cases:
        for kind, seed in kinds:
            tensors = draw(problem, case, kind, seed)
            results = call(tensors)
            viewed = frozenset(name for name in tensors if _all_views(results, tensors[name]))
            if viewed:
                # What was written in place is no view of what was given.
                given = draw(problem, case, kind, seed)
                viewed = frozenset(name for name in viewed if _equal(tensors[name], given[name]))
            wide = Oracle(oracle(tensors), oracle)
            limits = bounds(problem, case.size_map, tensors, wide, lambda r=results: r)  # type: ignore[misc]
            yield _Trial(case, kind, seed, tensors, results, limits, viewed)


def _passes(answer: Tensor, trial: _Trial, output: int) -> bool:
    """True where an answer is within the bound.

    Of special values only results that are numbers count: that a NaN is passed on tells nothing of what is
    computed, and nothing less its mean is still nothing.
    """
    bound, result = trial.bounds[output], trial.results[output]
    if answer.shape != bound.expected.shape:
        return False
    if trial.kind == "special values" and answer.dtype == result.dtype:
        answer = torch.where(result.isfinite(), answer, result)
    return largest_ratio(answer, bound) <= (1 if (trial.kind, trial.seed) in TRIALS else FAR)


# ------------------------------------------------------------------------------------ wrong answers


def _answers_that_pass(trials: list[_Trial]) -> Iterator[Finding]:
    for output in range(len(trials[0].results)):
        where = f"output {output}" if len(trials[0].results) > 1 else "the output"
        if not any(_has_numbers(t, output) for t in trials):
            yield _refuse(
                f"{where} is NaN or infinite for every input tried: there is no number to hold a kernel to. "
                f"{_DRAWN}: give constants for which it is finite then, or return what it is made of instead"
            )
        elif all(_passes(torch.zeros_like(t.results[output]), t, output) for t in trials):
            yield _refuse(
                f"{where} is zero, or too small to tell from rounding, for every input tried: "
                f"a kernel that does nothing would pass. {_DRAWN}: give constants for which it is more then, "
                "or return what it is made of instead"
            )
        for name in trials[0].tensors:
            if all(_is_copy(trial, name, output) for trial in trials):
                instead = ". Leave it out of the results" if len(trials[0].results) > 1 else ""
                yield _refuse(
                    f"{where} is a copy of {name} for every input tried: there is nothing to compute{instead}"
                )


def _views(trials: list[_Trial]) -> Iterator[Finding]:
    """Every output is another look at an input. A copy in another order is work, a view is none."""
    name = next((n for n in trials[0].tensors if all(n in trial.viewed for trial in trials)), None)
    if name is not None:
        yield _refuse(
            f"the output is a view of {name}: there is nothing to compute. Where the copy is what you want, "
            "return it with .contiguous()"
        )


def _all_views(results: Sequence[Tensor], source: Tensor) -> bool:
    """True when all results lie in this tensor's memory."""
    storage = source.untyped_storage().data_ptr()
    return all(result.untyped_storage().data_ptr() == storage for result in results)


def _refuse(message: str) -> Finding:
    return Finding(severity="refuse", message=message)


def _has_numbers(trial: _Trial, output: int) -> bool:
    """True where an element is finite in the reference's own precision and in float64."""
    return bool((trial.results[output].isfinite() & trial.bounds[output].expected.isfinite()).any())


def _is_copy(trial: _Trial, name: str, output: int) -> bool:
    source, result = trial.tensors[name], trial.results[output]
    same_kind = source.dtype == result.dtype and source.numel() == result.numel()
    return same_kind and _passes(source.reshape(result.shape), trial, output)


# ------------------------------------------------------------------------------------ what matters


def _tensors_that_do_not_matter(problem: Problem, trials: list[_Trial], call: Reference) -> Iterator[Finding]:
    for spec in problem.tensors:
        if spec.sampler.kind == "given":  # nobody knows what others would do
            continue
        if any(trial.changed(problem, spec.name, call) == "the verdict" for trial in trials):
            continue
        severity: Literal["refuse", "warn"] = "refuse" if spec.role == "input" else "warn"
        message = (
            f"the output does not depend on {spec.role} {spec.name!r}: other values change nothing. Leave it "
            "out, or compute something for which they matter"
        )
        ordinary = [trial for trial in trials if trial.kind != "special values"]
        if any(trial.changed(problem, spec.name, call) != "nothing" for trial in ordinary):
            message = (
                f"other values of {spec.role} {spec.name!r} change the output by no more than rounding may: "
                "a kernel that leaves it out would pass"
            )
        yield Finding(severity=severity, message=message)


def _what_changes(problem: Problem, trial: _Trial, name: str, call: Reference) -> Change:
    results = _with_other_values(problem, trial, name, call)
    judged = results
    if trial.kind == "special values":
        pairs = zip(results, trial.results, strict=True)
        judged = tuple(torch.where(other.isfinite(), other, result) for other, result in pairs)
    if any(not _passes(result, trial, output) for output, result in enumerate(judged)):
        return "the verdict"
    equal = all(_equal(a, b) for a, b in zip(results, trial.results, strict=True))
    return "nothing" if equal else "little"


def _equal(one: Tensor, other: Tensor) -> bool:
    """Equal values, NaN among them."""
    return torch.equal(one.nan_to_num(0.5), other.nan_to_num(0.5))


def _with_other_values(problem: Problem, trial: _Trial, name: str, call: Reference) -> tuple[Tensor, ...]:
    alone = problem.model_copy(update={"tensors": tuple(s for s in problem.tensors if s.name == name)})
    return call({**trial.tensors, **draw(alone, trial.case, trial.kind, trial.seed + OTHER_SEED)})


def _nearly_constant(trials: list[_Trial]) -> Iterator[Finding]:
    for output in range(len(trials[0].results)):
        if all(_hardly_varies(trial.results[output], trial.bounds[output]) for trial in trials):
            where = f"output {output}" if len(trials[0].results) > 1 else "the output"
            yield Finding(
                severity="warn",
                message=f"{where} is nearly constant: a check sees little of what a kernel computes",
            )


def _hardly_varies(result: Tensor, bound: OutputBound) -> bool:
    if not result.dtype.is_floating_point or result.numel() < 2:
        return False
    finite = result[torch.isfinite(result)].to(torch.float64)
    if finite.numel() < 2 or bool(finite.std() > HARDLY * finite.abs().mean()):
        return False
    constant = torch.full_like(result, float(finite.mean()))
    return largest_ratio(constant, bound) <= CLEARLY
