"""Vectors that a search may start from where few rows meet many.

Owns which numbers are tried, and what kernels beside them do; seeds.py chooses among these and others.
"""

from __future__ import annotations

import itertools

from workbench.model import H100, Problem, Vector
from workbench.playbook.kernels.few_tiling import AT_A_TIME, SPLITS
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

_BESIDE = (("warp", "off"), ("block", "off"), ("block", "on"))
"""Who has rows of kernels before and behind, of norms and softmaxes; whether blocks share a row."""
_THREADS, _WIDTHS, _DEEP = ("256", "128"), ("4", "8"), ("1", "2")
_MOST = 6


def few_seeds(problem: Problem) -> list[Vector]:
    """The best by prediction of all numbers of rows and blocks, each with the best teams for other rows."""
    traits = traits_of(problem)
    if not traits.few:
        return []
    found: dict[Vector, float] = {}
    beside = _BESIDE if len(traits.rows) > len(traits.few) else _BESIDE[:1]
    for rows, split, threads, width, deep in itertools.product(AT_A_TIME, SPLITS, _THREADS, _WIDTHS, _DEEP):
        teams = {
            settled(problem, _vector((str(rows), str(split), threads, width, deep), *others))
            for others in beside
        }
        able = [one for one in teams if dict(one).get("few_split", "1") == str(split)]
        if able:
            times = {vector: mean_us(problem, vector, H100) for vector in able}
            best = min(times, key=lambda vector: times[vector])
            found[best] = times[best]
    return sorted(found, key=lambda vector: found[vector])[:_MOST]


def _vector(numbers: tuple[str, str, str, str, str], team: str, shared: str) -> Vector:
    rows, split, threads, width, deep = numbers
    return (
        ("block_size", threads),
        ("columns_by", "bundle"),
        ("few_rows", rows),
        ("few_split", split),
        ("grid_split", shared),
        ("loads_in_flight", deep),
        ("matrix_product", "each"),
        ("reciprocal", "on"),
        ("single_pass", shared),
        ("split_join", "last"),
        ("split_k", "each"),
        ("threads_per_row", team),
        ("vector_width", width),
    )
