"""From conclusions to what a reasoner is told: the most alike first, factors joined, a sentence each.

Owns likeness and wording. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from workbench.archive.store import Conclusion
from workbench.playbook.rules.experience import Experience, Memory, Past, experience_of

_BEST = 4
"""Kernels that are recalled for seeds."""
_SENTENCES = 8


def recall(kept: Sequence[Conclusion], structure: str, sizes: Mapping[str, int]) -> Memory:
    """What conclusions of a family say about a problem with this structure at these sizes."""
    correct = [one for one in kept if one.score > 0]
    correct.sort(key=lambda one: (one.structure != structure, _distance(one, sizes), -one.score))
    best: dict[object, Past] = {}
    for place in dict.fromkeys((one.structure, one.sizes) for one in correct):
        there = [one for one in correct if (one.structure, one.sizes) == place]
        for one in sorted(there, key=lambda one: -one.score)[:2]:
            best.setdefault(
                one.vector, Past(vector=one.vector, score=one.score, where=_where(one), source=one.source)
            )
    return Memory(best=tuple(best.values())[:_BEST], techniques=_experience(kept))


def _distance(one: Conclusion, sizes: Mapping[str, int]) -> float:
    """Sum of the ratios of sizes, in factors of two; symbols that only one problem has count in full."""
    theirs = dict(one.sizes)
    names = {*theirs, *sizes}
    return sum(abs(math.log2(max(theirs.get(name, 1), 1) / max(sizes.get(name, 1), 1))) for name in names)


def _where(one: Conclusion) -> str:
    return f"{one.problem} at {'x'.join(str(size) for _, size in one.sizes) or 'its one size'}"


def _experience(kept: Sequence[Conclusion]) -> tuple[Experience, ...]:
    """Choices that were tried as changes of a parent, each with its factors joined."""
    return experience_of(
        (one.technique, one.value, one.predicted, one.found)
        for one in kept
        if one.technique and one.operator != "seed" and one.found and one.predicted > 0
    )


def sentences(memory: Memory) -> tuple[str, ...]:
    """For a prompt: what was best, then what the techniques brought, most telling first."""
    told = []
    for past in memory.best[:3]:
        choices = " ".join(f"{name}={value}" for name, value in past.vector if value not in ("off", "1"))
        told.append(
            f"best for {past.where}: {choices}; {past.score:.2f}x over the fastest baseline ({past.source})"
        )
    known = sorted(memory.techniques, key=lambda one: -abs(math.log(one.found)))
    for one in known:
        times = "once" if one.times == 1 else f"{one.times} times"
        told.append(
            f"{one.technique}={one.value}: {one.found:.2f}x found, {one.predicted:.2f}x predicted ({times})"
        )
    return tuple(told[:_SENTENCES])
