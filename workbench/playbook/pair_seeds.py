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
_BESIDE = (("eight", "off"), ("warp", "off"), ("block", "off"), ("block", "on"))
"""Who has rows of the kernels beside them: of norms before, of a mean over all results behind."""


def pair_seeds(problem: Problem) -> list[Vector]:
    """Tiles of every size; rows of other kernels, such as norms, by whoever is usual for them."""
    traits = traits_of(problem)
    if not traits.pairs:
        return []
    found: dict[Vector, None] = {}
    for (tile, threads), (team, split) in itertools.product(_TILES, _BESIDE):
        vector = (
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
        whole = settled(problem, vector)
        if dict(whole).get("pair_tile") == tile:
            found[whole] = None
    return list(found)
