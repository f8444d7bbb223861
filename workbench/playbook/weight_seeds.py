"""Vectors that a search may start from where rows are weighed: by neighbours alike, or by running totals.

Owns which blocks, loads and teams are tried, and what the kernels beside them do; seeds.py chooses among
these and all others.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.model import H100, Problem, Vector
from workbench.playbook.seeds import mean_us
from workbench.playbook.techniques import settled
from workbench.playbook.traits import traits_of

_SHARED = (("256", "1"), ("512", "1"), ("256", "2"), ("128", "2"))
"""Threads of a block, and how many times four columns are on their way together."""
_SUMMED = (("warp", "128"), ("warp", "64"), ("block", "64"), ("block", "256"))
"""Who walks a row once for all its sums, and the threads of a block."""
_FULL = 2
"""Blocks a multiprocessor below which narrower ones are tried too (a guess)."""
_BESIDE = ("block", "warp", "eight")
"""Who has rows of the kernels before, which make maxima and sums of scores."""


def weight_seeds(problem: Problem) -> list[Vector]:
    """Blocks of every size, each with the team that is best by prediction for other rows."""
    traits = traits_of(problem)
    widest = "8" if traits.narrowest_bytes == 2 else "4"
    found: list[Vector] = []
    if traits.weighed:
        rows = [
            row.shape.rows.at(case) for row in traits.rows if row.weighed for case in traits.declared_cases
        ]
        few = min(rows) < _FULL * H100.sm_count * 32 * int(widest)
        # Narrow vectors make more blocks, where results are too few for the card.
        for width in (widest, "2", "1") if few else (widest,):
            found += _with_others(problem, ("shared_weights", "on"), _SHARED, width)
    if traits.summed:
        for team in ("warp", "block"):
            blocks = [(threads, "1") for who, threads in _SUMMED if who == team]
            found += _with_others(problem, ("row_sums", team), blocks, widest)
    return list(dict.fromkeys(found))


def _with_others(
    problem: Problem, choice: tuple[str, str], blocks: Iterable[tuple[str, str]], width: str
) -> list[Vector]:
    """One vector for each kind of block, where the choice is possible."""
    found = []
    for threads, items in blocks:
        beside = [settled(problem, _vector(choice, threads, items, team, width)) for team in _BESIDE]
        able = [vector for vector in beside if choice in vector]
        if able:
            found.append(min(able, key=lambda vector: mean_us(problem, vector, H100)))
    return found


def _vector(choice: tuple[str, str], threads: str, items: str, team: str, width: str) -> Vector:
    return (
        ("block_size", threads),
        ("loads_in_flight", items),
        choice,
        ("single_pass", "on"),
        ("stream_hints", "on" if choice[0] == "shared_weights" else "off"),
        ("threads_per_row", team),
        ("vector_width", width),
    )
