"""Which vectors a search starts from: the best by prediction, and then those that are most unlike them.

Owns that choice. Predictions that lie close together are worth little: two vectors that the model gives the
same time are often the same kernel with another name, while a row in registers and one in shared memory
differ by a tenth and the model cannot say which way. estimate.py owns the predictions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from workbench.model import Problem, Target, Vector
from workbench.playbook.estimates.estimate import estimate

AN_EYE_OPENER_US = 10_000.0
"""A kernel meant to be compared with is timed where it takes less than this; thirty such runs are 0.3 s."""
HOPELESS = 20.0
"""Times as long as the best kernel at some shape, where it takes more."""
_A_DIFFERENCE = 0.015
"""Predicted time that one technique more of difference is worth, in a seed."""
_OF_A_SHAPE = 2.0
"""What a shape is worth at which a seed is predicted to be faster than every seed before it."""
_MOST_LOST = math.log(1.6)
"""Beyond this much predicted time no difference makes up for it."""

Times = Mapping[str, float]


def times_of(problem: Problem, vector: Vector, target: Target) -> Times:
    """Predicted microseconds by declared case."""
    return {case.label: estimate(problem, vector, target, case.size_map).us for case in problem.cases}


def mean_us(problem: Problem, vector: Vector, target: Target) -> float:
    """Geometric mean of the predicted times; 1 for a problem without cases."""
    times = times_of(problem, vector, target)
    return math.exp(_mean(times)) if times else 1.0


def worth_timing(times: Times, best: Times) -> bool:
    """False for a kernel that would cost seconds on a card, only to come out many times slower."""
    return all(us < AN_EYE_OPENER_US or us < HOPELESS * best[case] for case, us in times.items())


def unlike(problem: Problem, vectors: Sequence[Vector], target: Target, count: int) -> list[Vector]:
    """``count`` vectors: the one that is best by prediction, then what adds most to those before it."""
    left = {vector: times_of(problem, vector, target) for vector in vectors}
    if not left or not problem.cases:
        return list(left)[:count]
    taken: list[Vector] = []
    reached: dict[str, float] = {}
    least = min(_mean(times) for times in left.values())
    while left and len(taken) < count:
        vector = min(left, key=lambda one: _loss(one, left[one], least, taken, reached))
        for case, us in left.pop(vector).items():
            reached[case] = min(us, reached.get(case, math.inf))
        taken.append(vector)
    return taken


def best_at_each(problem: Problem, vectors: Sequence[Vector], target: Target) -> list[Vector]:
    """What is predicted to be fastest at one declared shape or another, however slow it is at the others."""
    times = {vector: times_of(problem, vector, target) for vector in vectors}
    if len(problem.cases) < 2 or not times:
        return []
    return list(dict.fromkeys(min(times, key=lambda one: times[one][case.label]) for case in problem.cases))


def _mean(times: Times) -> float:
    """Logarithm of the geometric mean."""
    return math.fsum(map(math.log, times.values())) / len(times)


def _loss(
    vector: Vector, times: Times, least: float, taken: Sequence[Vector], reached: Mapping[str, float]
) -> float:
    """How much slower than the best, less what is new about it."""
    lost = _mean(times) - least
    if not taken:
        return lost
    gained = sum(max(0.0, math.log(reached[case] / us)) for case, us in times.items()) / len(times)
    apart = min(_differences(vector, other) for other in taken)
    beyond = 10.0 * max(0.0, lost - _MOST_LOST)
    return lost + beyond - _OF_A_SHAPE * gained - _A_DIFFERENCE * apart


def _differences(one: Vector, other: Vector) -> int:
    ours, theirs = dict(one), dict(other)
    return sum(ours.get(name) != theirs.get(name) for name in ours.keys() | theirs.keys())
