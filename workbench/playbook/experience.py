"""What earlier searches taught, as the rules use it: better seeds, predictions corrected by what was found.

Owns how the past moves cards; keeping it is the archive's. Pure: the same past gives the same cards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.errors import UsageError
from workbench.model import Hypothesis, Problem, Target, Value, Vector
from workbench.playbook.estimate import predicted_factor
from workbench.playbook.techniques import TECHNIQUES, settled

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


NOTHING = Memory()


def seeds_from(
    problem: Problem, cards: Sequence[Hypothesis], memory: Memory, target: Target
) -> tuple[Hypothesis, ...]:
    """Seed cards with what was best before in front of the rules' guesses, behind the first, plain one."""
    if not memory.best or not cards:
        return tuple(cards)
    found: dict[Vector, Hypothesis] = {}
    for past in memory.best:
        vector = _settled(problem, past.vector)
        if vector is not None and vector not in found:
            found[vector] = _remembered(problem, past, vector, cards[0].vector, target)
    others = [card for card in cards[1:] if card.vector not in found]
    return (cards[0], *found.values(), *others)


def _settled(problem: Problem, vector: Vector) -> Vector | None:
    """The vector on this problem; None where it holds an idea that the rules do not know."""
    try:
        return settled(problem, vector)
    except UsageError:
        return None


def _remembered(problem: Problem, past: Past, vector: Vector, naive: Vector, target: Target) -> Hypothesis:
    chosen = [name for name, value in vector if name in TECHNIQUES and value != TECHNIQUES[name].plain]
    return Hypothesis(
        title=f"What was best for {past.where}",
        bottleneck="memory",
        cause="A problem of the same family was searched before on this device.",
        evidence=(f"seen before: {past.score:.2f}x over the fastest baseline ({past.source})",),
        fix="Begin with the techniques of that kernel.",
        technique=next((name for name in chosen if name != "fusion"), chosen[0] if chosen else ""),
        predicted_factor=predicted_factor(problem, naive, vector, target),
        risk="Other sizes may want other choices.",
        vector=vector,
    )


def reordered(cards: Iterable[Hypothesis], memory: Memory) -> list[Hypothesis]:
    """Cards by their predictions, corrected by what the same choice was found to bring."""
    known = {(one.technique, one.value): one for one in memory.techniques}
    if not known:
        return list(cards)
    told = [_corrected(card, known) for card in cards]
    return sorted(told, key=lambda card: -card.predicted_factor)


def _corrected(card: Hypothesis, known: dict[tuple[str, str], Experience]) -> Hypothesis:
    one = known.get((card.technique, dict(card.vector).get(card.technique, "")))
    if one is None:
        return card
    ratio = min(max(one.found / one.predicted, 1 / _BOUND), _BOUND) ** _TRUST
    times = "once" if one.times == 1 else f"{one.times} times"
    seen = f"seen before: {one.found:.2f}x found where {one.predicted:.2f}x was predicted ({times})"
    update = {"predicted_factor": card.predicted_factor * ratio, "evidence": (*card.evidence, seen)}
    return card.model_copy(update=update)
