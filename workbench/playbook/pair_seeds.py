"""Vectors that a search may start from where results are pairs of rows.

Owns which tiles and blocks are tried, and what the kernels beside them do; seeds.py chooses among these and
all others.
"""

from __future__ import annotations

import itertools

from workbench.model import Problem, Vector
from workbench.playbook.techniques import settled
from workbench.playbook.traits import traits_of

_TILES = (("64", "256"), ("32", "64"), ("128", "256"), ("32", "128"), ("64", "64"), ("64", "128"))
"""Edge of the results of a block, and its threads: 16 results a thread, 16, 64, 8, 64, 32."""


def pair_seeds(problem: Problem) -> list[Vector]:
    """Tiles of every size; rows of other kernels, such as norms, by whoever is usual for them."""
    traits = traits_of(problem)
    if not traits.pairs:
        return []
    width = "8" if traits.narrowest_bytes == 2 else "4"
    found: dict[Vector, None] = {}
    for (tile, threads), team in itertools.product(_TILES, ("eight", "warp", "block")):
        vector = (
            ("block_size", threads),
            ("pair_tile", tile),
            ("reciprocal", "on"),
            ("threads_per_row", team),
            ("vector_width", width),
        )
        whole = settled(problem, vector)
        if dict(whole).get("pair_tile") == tile:
            found[whole] = None
    return list(found)
