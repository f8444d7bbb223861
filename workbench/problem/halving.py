"""Small sizes where no pattern of sizes fits a reference: the declared ones, halved as far as it takes them.

Owns in which steps they are halved. Pure arithmetic: a callback says what the reference accepts. Never tries
patterns, which come first and are proofs.py's.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from workbench.model import Case, Problem
from workbench.problem.cost import fixed_elements
from workbench.problem.proofs import (
    LARGE_FIXED,
    LEAST_ELEMENTS,
    LEAST_MULTIPLICATIONS,
    MOST_NODES,
    Accept,
    Budget,
    proof_of,
)

_MOST_HALVED, _MOST_CASES, _HALVINGS = 200, 4, range(1, 12)
"""Sizes that the reference is asked about at most, cases that come of it, and how often a size is halved at
once."""


def halved(problem: Problem, accept: Accept, least: Mapping[str, int]) -> tuple[Case, ...]:
    """Small cases by halving the declared one, for sizes that have to do with each other in ways nobody told.

    Sizes that are equal stay equal. Tokens of patches are an area over four: two sizes are made less at once
    where neither can be alone. What is beyond the least is halved too, as tokens behind those that are kept.
    """
    if not problem.symbols or fixed_elements(problem) > LARGE_FIXED:
        return ()
    declared = problem.cases[0].size_map
    most = min(_MOST_HALVED, MOST_NODES // max(len(problem.graph.nodes), 1))
    groups: dict[int, list[str]] = {}
    for symbol, size in declared.items():
        groups.setdefault(size, []).append(symbol)
    known: dict[tuple[tuple[str, int], ...], bool] = {}

    def takes(sizes: Mapping[str, int]) -> bool:
        key = tuple(sizes.items())
        if key not in known:
            known[key] = len(known) < most and accept(sizes)
        return known[key]

    def alone(group: Sequence[str], now: Mapping[str, int]) -> list[dict[str, int]]:
        floor = max(1 if least.get(symbol, 1) <= 2 else least[symbol] for symbol in group)  # see _in_range
        size = now[group[0]]
        ends = {end + ((size - end) >> by) for end in (0, floor) for by in _HALVINGS}
        return [{**now, **dict.fromkeys(group, end)} for end in sorted(ends) if floor <= end < size]

    def together(one: Sequence[str], other: Sequence[str], now: Mapping[str, int]) -> list[dict[str, int]]:
        """Both by as much, or one by its square."""
        found = []
        for by, times in itertools.product(reversed(_HALVINGS), (1, 2)):
            a, b = now[one[0]] >> by, now[other[0]] >> by * times
            found += [{**now, **dict.fromkeys(one, a), **dict.fromkeys(other, b)}] if a and b else []
        return found

    def step(now: dict[str, int]) -> dict[str, int] | None:
        longest = sorted(groups.values(), key=lambda one: -now[one[0]])
        tried = [sizes for group in longest for sizes in alone(group, now)]
        for one, other in itertools.permutations(longest, 2):
            tried += together(one, other, now)
        return next((sizes for sizes in tried if takes(sizes)), None)

    found, now = [], dict(declared)
    while (smaller := step(now)) is not None:
        now = smaller
        found.append(now)
    budget = Budget(LEAST_ELEMENTS, LEAST_MULTIPLICATIONS)
    small = [sizes for sizes in reversed(found) if budget.allow(problem, sizes)]
    return tuple(proof_of(problem, sizes) for sizes in small[:_MOST_CASES])
