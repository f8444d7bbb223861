"""One vector of several: each shape takes the choices that were fastest there, found or predicted.

Owns the choice of classes and their boundaries. shape_classes.py spells the vector, class_file.py writes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.errors import NotCovered, PlanError
from workbench.model import Case, Evaluation, Hypothesis, Problem, Target, Vector
from workbench.plan.interpret import interpret, refuse_library
from workbench.plan.parse import Program, parse
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.files.shape_classes import (
    BY_SHAPE,
    MOST_CLASSES,
    Condition,
    ShapeClass,
    class_at,
    classes_of,
    joined,
    named_sizes,
    symbol_of,
)
from workbench.playbook.generate import generate
from workbench.playbook.rules.cards import RISKS, bound_of
from workbench.playbook.techniques.table import TECHNIQUES, settled
from workbench.playbook.text.titles import TITLES
from workbench.search.shapes import NOISE, Shares, gain_of, shares, source_of, times_of

_MODEL_NOISE = 0.05
"""Predicted times this close are no reason for another kernel."""
LEAST_PREDICTED, LEAST_AT_ONE = 1.05, 1.15
"""Gains, of all shapes together or at one of them, of which the model must promise one before a seed is made
of several kernels."""

_PLAIN = {name: technique.plain for name, technique in TECHNIQUES.items()}
_Sized = tuple[Mapping[str, int], int]
"""Sizes of a case by their names in the plan, and the number of the vector it takes."""


@dataclass(frozen=True)
class Found:
    """A correct kernel, and what was found out about it."""

    name: str
    """How a card speaks of it, such as ``b3``."""
    vector: Vector
    evaluation: Evaluation | None


def from_found(problem: Problem, kernels: Sequence[Found], target: Target) -> Hypothesis | None:
    """A card that takes each declared shape's fastest kernel; None where one kernel is fastest everywhere.

    What a class is given is generated anew, and the model must not call it slower than the kernel that it was
    taken from: where it does, that case takes the next best.
    """
    source = source_of(kernels[0].evaluation) if kernels else ""
    able = [kernel for kernel in kernels if source and source_of(kernel.evaluation) == source]
    lost = _lost(problem, able)
    joint = _joint(problem, able, frozenset(lost), target)
    if joint is None or any(joint[1] == kernel.vector for kernel in able):
        return None
    found, vector = joint
    return Hypothesis(
        title=TITLES[BY_SHAPE, "some"],
        bottleneck=bound_of(able[found.kernels[0]].evaluation) or "none",
        cause=f"No kernel is fastest at every shape: {_words(found, able)}.",
        evidence=(*_evidence(found, able, source), *(f"{line} ({source})" for line in lost.values())),
        fix=f"{_fix(problem, vector)} It is timed as its parts were before it is preferred to them.",
        technique=BY_SHAPE,
        predicted_factor=found.gain,
        risk=RISKS[BY_SHAPE],
        vector=vector,
    )


def _joint(
    problem: Problem, able: Sequence[Found], apart: frozenset[str], target: Target
) -> tuple[Shares, Vector] | None:
    """Which kernel takes which case, and the vector of it; None where no two kernels go together."""
    times = [dict(times_of(kernel.evaluation)) for kernel in able]
    for _ in problem.cases:
        found = shares(times, most=MOST_CLASSES)
        if found is None or len(found.kernels) < 2:
            return None
        takes = dict(found.by_case)
        wanted = {case.label: _at(problem, able[takes[case.label]].vector, case) for case in problem.cases}
        vector = _as_fast(problem, wanted, apart, target)
        if vector is None:
            return None
        if not isinstance(vector, frozenset):
            gain = gain_of([times_of(kernel.evaluation) for kernel in able], takes)
            return Shares(found.by_case, gain), vector
        for case in vector:
            times[takes[case]][case] = math.inf
    return None


def _at(problem: Problem, vector: Vector, case: Case) -> Vector:
    """What a vector, which may itself differ by shape, takes at a case."""
    classes = classes_of(problem, vector)
    return class_at(classes, problem, case.size_map).vector if classes else vector


def _lost(problem: Problem, kernels: Sequence[Found]) -> dict[str, str]:
    """Cases at which a joined kernel was slower than another, and how much: they need their own classes."""
    lost = {}
    for joint in kernels:
        if not classes_of(problem, joint.vector):
            continue
        for case, us in times_of(joint.evaluation).items():
            best = min(kernels, key=lambda one: times_of(one.evaluation).get(case, math.inf))
            least = times_of(best.evaluation)[case]
            if us > (1 + NOISE) * least:
                lost[case] = f"{case}: {us:.3g} us in the joined {joint.name}, {least:.3g} us by {best.name}"
    return lost


def _as_fast(
    problem: Problem, wanted: Mapping[str, Vector], apart: frozenset[str], target: Target
) -> Vector | frozenset[str] | None:
    """``vector_by_case``; a case that the model calls slower in its class than alone gets its own class.

    The cases that are slower even so, where there are any.
    """
    slower: frozenset[str] = frozenset()
    for _ in range(2):
        vector = vector_by_case(problem, wanted, target, apart)
        if vector is None:
            return None
        slower = _slower(problem, vector, wanted, target)
        if not slower:
            return vector
        apart |= slower
    return slower


def _slower(problem: Problem, vector: Vector, wanted: Mapping[str, Vector], target: Target) -> frozenset[str]:
    """Cases that the model calls slower with the joined vector than with the one that was measured."""

    def us(one: Vector, case: Case) -> float:
        return estimate(problem, one, target, case.size_map).us

    return frozenset(
        case.label for case in problem.cases if us(vector, case) > (1 + NOISE) * us(wanted[case.label], case)
    )


def _words(found: Shares, kernels: Sequence[Found]) -> str:
    taken: dict[str, list[str]] = {}
    for case, place in found.by_case:
        taken.setdefault(kernels[place].name, []).append(case)
    return "; ".join(f"{name} at {', '.join(cases)}" for name, cases in taken.items())


def _evidence(found: Shares, kernels: Sequence[Found], source: str) -> tuple[str, ...]:
    """For every case the fastest kernel, and what the other one that takes part needs there."""
    lines = []
    for case, place in found.by_case:
        others = [
            (times_of(kernels[p].evaluation)[case], kernels[p].name) for p in found.kernels if p != place
        ]
        slow, name = max(others)
        best = times_of(kernels[place].evaluation)[case]
        lines.append(f"{case}: {best:.3g} us by {kernels[place].name}, {slow:.3g} us by {name} ({source})")
    return tuple(lines)


def _fix(problem: Problem, vector: Vector) -> str:
    parts = [
        f"{part.condition.text or 'all others'} ({', '.join(case.label for case in part.problem.cases)})"
        for part in classes_of(problem, vector)
    ]
    return f"One file whose plan branches on the sizes, with kernels for {'; '.join(parts)}."


# ------------------------------------------------------------------------------ by prediction


def from_prediction(
    problem: Problem, vectors: Sequence[Vector], target: Target, alone: Mapping[str, Vector] | None = None
) -> Hypothesis | None:
    """A card that takes at each declared shape what the model calls fastest; its factor is over the best one.

    ``alone`` has for some cases a vector that only a kernel of their own can take, as lanes for short rows
    beside long ones. None where the gain over the best one is below ``LEAST_PREDICTED``, and below
    ``LEAST_AT_ONE`` at every shape.
    """
    if len(problem.cases) < 2:
        return None
    whole = [
        {case.label: estimate(problem, vector, target, case.size_map).us for case in problem.cases}
        for vector in vectors
    ]
    apart = [_only_at(problem, label, vector, target) for label, vector in (alone or {}).items()]
    able, times = [*vectors, *(alone or {}).values()], [*whole, *apart]
    found = shares(times, noise=_MODEL_NOISE, most=MOST_CLASSES)
    if found is None or len(found.kernels) < 2:
        return None
    wanted = {case: able[place] for case, place in found.by_case}
    vector = vector_by_case(problem, wanted, target)
    if vector is None or not classes_of(problem, vector):
        return None
    best = min(whole, key=lambda one: _mean(list(one.values())))
    joint = {case.label: estimate(problem, vector, target, case.size_map).us for case in problem.cases}
    gain = _mean(list(best.values())) / _mean(list(joint.values()))
    if gain < LEAST_PREDICTED and all(best[label] < LEAST_AT_ONE * us for label, us in joint.items()):
        return None
    return Hypothesis(
        title="Each shape takes the kernel that is predicted to be fastest there",
        bottleneck="none",
        cause=f"No kernel is predicted to be fastest at every shape; together they gain {gain:.2f}x.",
        evidence=tuple(
            f"{case}: about {times[place][case]:.3g} us (playbook's model)" for case, place in found.by_case
        ),
        fix=_fix(problem, vector),
        technique=BY_SHAPE,
        predicted_factor=gain,
        risk=RISKS[BY_SHAPE],
        vector=vector,
    )


def _only_at(problem: Problem, label: str, vector: Vector, target: Target) -> dict[str, float]:
    """What a kernel for one declared case alone takes there; at all others it is none."""
    part = of_case(problem, label)
    times = {other.label: math.inf for other in problem.cases}
    return {**times, label: estimate(part, vector, target, part.cases[0].size_map).us}


def of_case(problem: Problem, label: str) -> Problem:
    """The problem at one of its declared cases."""
    return problem.model_copy(update={"cases": tuple(one for one in problem.cases if one.label == label)})


def _mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


# ------------------------------------------------------------------------------ classes


def vector_by_case(
    problem: Problem, wanted: Mapping[str, Vector], target: Target, apart: frozenset[str] = frozenset()
) -> Vector | None:
    """One vector that treats every declared case as wanted, and those ``apart`` in classes of their own.

    None where no short list of conditions does.
    """
    alone = {case.label: case.label if case.label in apart else "" for case in problem.cases}
    kinds = list(dict.fromkeys((wanted[case.label], alone[case.label]) for case in problem.cases))
    vectors = [vector for vector, _ in kinds]
    sized = [
        (named_sizes(problem, case.size_map), kinds.index((wanted[case.label], alone[case.label])))
        for case in problem.cases
    ]
    for most in range(1, MOST_CLASSES):
        listed = _conditions(sized, most)
        if listed is not None:
            parts = [(condition, vectors[number]) for condition, number in listed]
            return _covering(problem, settled(problem, joined(parts, _PLAIN)), target)
    return None


def of_classes(problem: Problem, conditions: Sequence[Condition], vectors: Sequence[Vector]) -> Vector:
    """The settled vector that treats each class of shapes by a vector of its own."""
    return settled(problem, joined(list(zip(conditions, vectors, strict=True)), _PLAIN))


def _conditions(cases: Sequence[_Sized], most: int) -> list[tuple[Condition, int]] | None:
    """At most ``most`` conditions, and what is left, that tell the cases apart; the fewest there are."""
    if len({number for _, number in cases}) == 1:
        return [(Condition(), cases[0][1])]
    if most == 0:
        return None
    best: list[tuple[Condition, int]] | None = None
    for condition, inside in sorted(_pure(cases), key=_plainness):
        rest = _conditions([case for case in cases if case not in inside], most - 1)
        if rest is not None and (best is None or len(rest) + 1 < len(best)):
            best = [(condition, inside[0][1]), *rest]
    return best


def _plainness(found: tuple[Condition, list[_Sized]]) -> tuple[bool, bool, int]:
    """Upper bounds first: what is left then is the larger shapes, whose kernels reach furthest."""
    condition, inside = found
    return condition.low is not None and condition.high is not None, condition.low is not None, -len(inside)


def _pure(cases: Sequence[_Sized]) -> Iterator[tuple[Condition, list[_Sized]]]:
    """Ranges of one size whose cases all want the same vector."""
    for name in reversed(list(cases[0][0])):
        values = sorted({sizes[name] for sizes, _ in cases})
        for first in range(len(values)):
            for last in range(first, len(values)):
                inside = [case for case in cases if values[first] <= case[0][name] <= values[last]]
                if len(inside) == len(cases) or len({number for _, number in inside}) > 1:
                    continue
                low = _between(values[first - 1], values[first]) if first else None
                high = _between(values[last], values[last + 1]) if last + 1 < len(values) else None
                yield Condition(name, low, high), inside


def _between(smaller: int, larger: int) -> int:
    """A boundary: the power of two nearest to the geometric mean, or that mean where none lies between."""
    middle = max(math.sqrt(smaller * larger), 0.5)
    powers = [
        1 << k for k in range(smaller.bit_length() - 1, larger.bit_length()) if smaller <= 2**k < larger
    ]
    if powers:
        return min(powers, key=lambda power: abs(math.log(power / middle)))
    return max(smaller, min(int(middle), larger - 1))


def _covering(problem: Problem, vector: Vector, target: Target) -> Vector:
    """The vector with boundaries moved down where a class's kernel does not reach up to them."""
    classes = classes_of(problem, vector)
    program = parse(generate(problem, vector).kernel.source) if classes else None
    if program is None or program.uses_library:
        return vector
    parts = []
    for part in classes:
        condition = part.condition
        if condition.high is not None:
            high = _reach(problem, program, target, part)
            condition = Condition(condition.name, condition.low, high)
        parts.append((condition, part.vector))
    return settled(problem, joined(parts, _PLAIN))


def _reach(problem: Problem, program: Program, target: Target, part: ShapeClass) -> int:
    """The boundary, halved until the plan covers a shape that lies on it; at least what is declared."""
    symbol = symbol_of(problem, part.condition.name)
    largest = max(part.problem.cases, key=lambda case: case.size_map[symbol])
    high, least = part.condition.high or 0, largest.size_map[symbol]
    while high > least:
        sizes = tuple((name, high if name == symbol else size) for name, size in largest.sizes)
        metas = problem.metas(largest.model_copy(update={"sizes": sizes}))
        try:
            interpret(program, metas, target, refuse_library)
            return high
        except NotCovered:
            high = max(least, high // 2)
        except PlanError:
            return high
    return high
