"""Vectors that a search may start from where results are pairs of rows.

Owns which tiles and blocks are tried, and what the kernels beside them do; seeds.py chooses among these and
all others.
"""

from __future__ import annotations

from workbench.model import H100, Problem, Vector
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

_TILES = (("64", "256"), ("32", "64"), ("128", "256"), ("32", "128"), ("64", "64"), ("64", "128"))
"""Edge of the results of a block, and its threads: 16 results a thread, 16, 64, 8, 64, 32."""
_BESIDE = (("eight", "off"), ("warp", "off"), ("block", "off"), ("block", "on"))
"""Who has rows of kernels before and behind, of norms and means; whether blocks share a row."""


def pair_seeds(problem: Problem) -> list[Vector]:
    """Tiles of every size, each with the teams that are best by prediction for other rows.

    One a tile: seeds that differ in who computes a norm would leave no room for other tiles.
    """
    if not traits_of(problem).pairs:
        return []
    found: dict[Vector, None] = {}
    for tile, threads in _TILES:
        beside = [settled(problem, _vector(tile, threads, *others)) for others in _BESIDE]
        able = [vector for vector in beside if dict(vector).get("pair_tile") == tile]
        if able:
            found[min(able, key=lambda vector: mean_us(problem, vector, H100))] = None
    return list(found)


def _vector(tile: str, threads: str, team: str, split: str) -> Vector:
    return (
        ("block_size", threads),
        ("columns_by", "bundle"),
        ("grid_split", split),
        ("pair_tile", tile),
        ("reciprocal", "on"),
        ("single_pass", split),
        ("split_join", "last"),
        ("threads_per_row", team),
        ("vector_width", "4"),
    )
