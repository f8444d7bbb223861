"""Vectors that a search may start from where rows are weighed: by neighbours alike, or by running totals.

Owns which blocks, loads and teams are tried, and what the kernels beside them do; seeds.py chooses among
these and all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from workbench.model import H100, Problem, Vector
from workbench.playbook.analysis.scan_lanes import lanes_offered
from workbench.playbook.analysis.shared_weights import LANES
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

_SHARED = (("256", "1"), ("512", "1"), ("256", "2"), ("128", "2"))
"""Threads of a block, and how many times four columns are on their way together."""
_SUMMED = (
    ("warp", "128", "off"),
    ("warp", "64", "on"),
    ("block", "64", "off"),
    ("block", "256", "on"),
)
"""Who walks a row once for all its sums, threads of a block, and whether loads and stores are streamed."""
_FULL = 2
"""Blocks a multiprocessor below which narrower ones are tried too (a guess)."""
_FEWEST = 3
"""Of the lanes that short rows of running totals may have, so many of the fewest are tried."""
_BESIDE = ("block", "warp", "eight")
"""Who has rows of the kernels before, which make maxima and sums of scores."""


def weight_seeds(problem: Problem) -> list[Vector]:
    """Blocks of every size, each with the team that is best by prediction for other rows."""
    traits = traits_of(problem)
    widest = traits.widest
    found: list[Vector] = []
    if traits.weighed:
        rows = [one.rows.at(case) for one in traits.weighed for case in traits.declared_cases]
        few = min(rows) < _FULL * H100.sm_count * LANES * int(widest)
        # Where results are too few for the card, narrow vectors make more blocks, and so do pieces of a row.
        for width, split in ((widest, "off"), (widest, "on"), ("1", "off")) if few else ((widest, "off"),):
            choices = (("shared_weights", "on"), ("grid_split", split), ("stream_hints", "on"))
            found += _with_others(problem, choices, _SHARED, width)
    if traits.summed:
        for (team, threads, stream), width in itertools.product(_SUMMED, dict.fromkeys((widest, "4"))):
            asked = (("row_sums", team), ("stream_hints", stream))
            found += _with_others(problem, asked, [(threads, "1")], width)
        found += _short_rows(problem)
    return list(dict.fromkeys(found))


def _short_rows(problem: Problem) -> list[Vector]:
    """Fewer lanes a row than it has vectors; what comes of all rows is added up by many blocks."""
    traits = traits_of(problem)
    lanes = lanes_offered([one for one in traits.summed if one.op], traits.declared_cases)
    found = []
    for few in ("fit", *lanes[-_FEWEST:]) if lanes else ():
        asked = (
            ("row_sums", "warp"), ("scan_lanes", few), ("row_totals", "launch"), ("grid_split", "on"),
            ("split_join", "last"),
        )  # fmt: skip
        found += _with_others(problem, asked, [("128", "1")], traits.widest)
    return found


def _with_others(
    problem: Problem, choices: Vector, blocks: Iterable[tuple[str, str]], width: str
) -> list[Vector]:
    """One vector for each kind of block, where the first choice is possible."""
    found = []
    for threads, items in blocks:
        beside = [settled(problem, _vector(choices, threads, items, team, width)) for team in _BESIDE]
        able = [vector for vector in beside if choices[0] in vector]
        if able:
            found.append(min(able, key=lambda vector: mean_us(problem, vector, H100)))
    return found


def _vector(choices: Vector, threads: str, items: str, team: str, width: str) -> Vector:
    return (
        ("block_size", threads),
        ("loads_in_flight", items),
        *choices,
        ("single_pass", "on"),
        ("threads_per_row", team),
        ("vector_width", width),
    )
