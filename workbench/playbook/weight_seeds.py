"""Vectors that a search may start from where rows are weighed: by neighbours alike, or by running totals.

Owns which blocks and loads are tried, and what the kernels beside them do; seeds.py chooses among these and
all others.
"""

from __future__ import annotations

from workbench.model import H100, Problem, Vector
from workbench.playbook.seeds import mean_us
from workbench.playbook.techniques import settled
from workbench.playbook.traits import traits_of

_BLOCKS = (("256", "1"), ("512", "1"), ("256", "2"), ("128", "2"), ("1024", "1"))
"""Threads of a block, and how many times four columns are on their way together."""
_SUMMED = (("warp", "128"), ("warp", "256"), ("warp", "64"), ("block", "64"), ("block", "256"))
"""Who scans and sums a row, and the threads of a block."""
_BESIDE = ("block", "warp")
"""Who has rows of the kernels before, which make maxima and sums of scores."""


def weight_seeds(problem: Problem) -> list[Vector]:
    """Blocks of every size, each with the team that is best by prediction for other rows."""
    traits = traits_of(problem)
    if not traits.weighed:
        return []
    width = "8" if traits.narrowest_bytes == 2 else "4"
    found: dict[Vector, None] = {}
    for threads, items in _BLOCKS:
        beside = [settled(problem, _vector(threads, items, team, width)) for team in _BESIDE]
        able = [vector for vector in beside if dict(vector).get("shared_weights") == "on"]
        if able:
            found[min(able, key=lambda vector: mean_us(problem, vector, H100))] = None
    return list(found)


def sum_seeds(problem: Problem) -> list[Vector]:
    """Warps and blocks that scan rows and sum them up."""
    if not traits_of(problem).summed:
        return []
    found: dict[Vector, None] = {}
    for team, threads in _SUMMED:
        asked = (
            ("block_size", threads),
            ("row_sums", team),
            ("vector_width", "4"),
        )
        whole = settled(problem, asked)
        if dict(whole).get("row_sums") == team:
            found[whole] = None
    return list(found)


def _vector(threads: str, items: str, team: str, width: str) -> Vector:
    return (
        ("block_size", threads),
        ("loads_in_flight", items),
        ("shared_weights", "on"),
        ("single_pass", "on"),
        ("stream_hints", "on"),
        ("threads_per_row", team),
        ("vector_width", width),
    )
