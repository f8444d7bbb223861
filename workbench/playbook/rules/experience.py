"""What was found, in earlier searches and in this one: better seeds, predictions that follow it.

Owns how the past moves cards and how a vector is fitted to other shapes; keeping it is the archive's. Pure:
the same past gives the same cards.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from workbench.errors import UsageError
from workbench.model import Hypothesis, Problem, Target, Value, Vector
from workbench.playbook.estimates.estimate import predicted_factor
from workbench.playbook.files.shape_classes import classes_of
from workbench.playbook.rules.by_shape import of_classes
from workbench.playbook.rules.moves import TEACHING_ONLY, naive_vector, title_of
from workbench.playbook.rules.seeds import mean_us, times_of, worth_timing
from workbench.playbook.techniques.table import TECHNIQUES, settled

MOST_RECALLED = 2
"""Seeds from the archive in one search: the rest of the past is in the predictions."""
_WORTH_A_CHANGE = 0.01
"""Predicted gain below which a technique stays plain."""

_TRUST = 0.7
"""Weight of what was found beside what is predicted: other sizes, other neighbours."""
_BOUND = 2.0
"""A correction changes a prediction by this factor at most."""


class Past(Value):
    """A kernel that was among the best on a problem of the same family."""

    vector: Vector
    score: float
    """Over the fastest baseline."""
    where: str
    """Problem and sizes, in words."""
    source: str
    """``measured`` or ``model``."""


class Experience(Value):
    """A technique's value over all attempts in a family."""

    technique: str
    value: str
    predicted: float
    """Geometric mean of the predicted factors."""
    found: float
    """Geometric mean of the factors that were found."""
    times: int


class Memory(Value):
    """What an archive recalls for one problem on one device; empty where it knows nothing."""

    best: tuple[Past, ...] = ()
    """Most alike problems first, then best first."""
    techniques: tuple[Experience, ...] = ()
    steers: bool = True
    """False: what was found before is told, but predictions and their order stay as they are without it."""


NOTHING = Memory()


def with_recalled(
    problem: Problem, cards: Sequence[Hypothesis], memory: Memory, target: Target
) -> tuple[Hypothesis, ...]:
    """Seed cards, and behind the first of them what was best before, fitted to this problem's shapes.

    None of the cards gives way: what is recalled comes on top. A vector that a card has already, and one that
    the model calls hopeless here, is left out.
    """
    if not memory.best or not cards:
        return tuple(cards)
    had = {card.vector: card for card in cards}
    fastest = min((times_of(problem, one, target) for one in had), key=lambda t: math.prod(t.values()))
    found: dict[Vector, Hypothesis] = {}
    for past in memory.best:
        if len(found) == MOST_RECALLED:
            break
        vector = fitted(problem, past.vector, target)
        if vector is None or vector in found:
            continue
        if (known := had.get(vector)) is not None:
            had[vector] = known.model_copy(update={"evidence": (*known.evidence, _seen(past))})
            continue
        if worth_timing(times_of(problem, vector, target), fastest):
            found[vector] = _remembered(problem, past, vector, target)
    first, *others = had.values()
    return (first, *found.values(), *others)


def fitted(problem: Problem, vector: Vector, target: Target) -> Vector | None:
    """The vector with what it could not say, where other shapes were asked for, chosen by prediction.

    None where it holds an idea that the rules do not know.
    """
    try:
        classes = classes_of(problem, vector)
        if not classes:
            return _completed(problem, vector, target)
        parts = [_completed(part.problem, part.vector, target) for part in classes]
        return of_classes(problem, [part.condition for part in classes], parts)
    except UsageError:
        return None


def _completed(problem: Problem, vector: Vector, target: Target) -> Vector:
    """Techniques that the vector is silent about, one after another, each at its fastest value."""
    here, said = settled(problem, vector), dict(vector)
    least = mean_us(problem, here, target)
    for name, technique in TECHNIQUES.items():
        if name in said or name not in dict(here):
            continue
        for value in technique.values:
            if (name, value) in TEACHING_ONLY:
                continue
            other = settled(problem, tuple(sorted({**dict(here), name: value}.items())))
            us = mean_us(problem, other, target)
            if us < (1 - _WORTH_A_CHANGE) * least and all(
                dict(other).get(n) == dict(here).get(n) for n in said
            ):
                here, least = other, us
    return here


def _seen(past: Past) -> str:
    return f"seen before: {past.score:.2f}x over the fastest baseline at {past.where} ({past.source})"


def _remembered(problem: Problem, past: Past, vector: Vector, target: Target) -> Hypothesis:
    said = dict(past.vector)
    chosen = [name for name, value in vector if name in TECHNIQUES and value != TECHNIQUES[name].plain]
    new = [f"{name}={value}" for name, value in vector if name in chosen and name not in said]
    fit = f" Chosen by prediction for these shapes: {', '.join(new)}." if new else ""
    return Hypothesis(
        title=f"{title_of(vector) or 'The plain kernel'}, as was best before",
        bottleneck="memory",
        cause="A problem of the same family was searched before on this device.",
        evidence=(_seen(past),),
        fix=f"Begin with the techniques of that kernel, beside the usual seeds.{fit}",
        technique=next((name for name in chosen if name != "fusion"), chosen[0] if chosen else ""),
        predicted_factor=predicted_factor(problem, naive_vector(problem), vector, target),
        risk="Other sizes may want other choices.",
        vector=vector,
        recalled=True,
    )


def experience_of(tried: Iterable[tuple[str, str, float, float]]) -> tuple[Experience, ...]:
    """Technique, value, predicted and found factor of changes of a parent; those of one choice joined."""
    groups: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for technique, value, predicted, found in tried:
        groups[technique, value].append((predicted, found))
    return tuple(
        Experience(
            technique=technique,
            value=value,
            predicted=_mean(predicted for predicted, _ in pairs),
            found=_mean(found for _, found in pairs),
            times=len(pairs),
        )
        for (technique, value), pairs in sorted(groups.items())
    )


def _mean(factors: Iterable[float]) -> float:
    logs = [math.log(factor) for factor in factors]
    return math.exp(sum(logs) / len(logs))


def reordered(
    cards: Iterable[Hypothesis], memory: Memory, here: Sequence[Experience] = ()
) -> list[Hypothesis]:
    """Cards with what the same choice was found to bring, before and in this search; predictions follow it.

    What this search has found itself counts before what is remembered of others, and steers whether or not
    memory does. A choice that brought nothing here waits for those that nobody has tried, whatever is
    predicted of it: of the last six changes in a search for a softmax, five were such choices once more.
    """
    ways = {
        (one.technique, one.value): (one, "seen before", _TRUST if memory.steers else 0.0)
        for one in memory.techniques
    }
    ways |= {(one.technique, one.value): (one, "in this search", _TRUST) for one in here}
    told = [_told(card, *way) if (way := ways.get(_choice(card))) else card for card in cards]
    if not any(trust > 0 for _, _, trust in ways.values()):
        return told
    idle = {(one.technique, one.value) for one in here if one.found < 1 + _WORTH_A_CHANGE}
    return sorted(told, key=lambda card: (_choice(card) in idle, -card.predicted_factor))


def _choice(card: Hypothesis) -> tuple[str, str]:
    return card.technique, dict(card.vector).get(card.technique, "")


def _told(card: Hypothesis, one: Experience, seen: str, trust: float) -> Hypothesis:
    ratio = min(max(one.found / one.predicted, 1 / _BOUND), _BOUND) ** trust
    times = "once" if one.times == 1 else f"{one.times} times"
    seen = f"{seen}: {one.found:.2f}x found where {one.predicted:.2f}x was predicted ({times})"
    update = {"predicted_factor": card.predicted_factor * ratio, "evidence": (*card.evidence, seen)}
    return card.model_copy(update=update)
