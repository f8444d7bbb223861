"""Vectors that a search may start from where a kernel can multiply matrices.

Owns what the kernels behind them do; seeds.py chooses among these and all others.
"""

from __future__ import annotations

import itertools

from workbench.model import Problem, Vector
from workbench.playbook.kernels.product_tiling import SPLITS
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

_WAYS = (
    ("each", "each"),
    ("three_tf32", "each"),
    *(("three_tf32", str(blocks)) for blocks in SPLITS),
)
"""What makes the products, and blocks that share the terms of a tile."""
_BEHIND = (
    ("block", "registers", "off"),
    ("block", "reread", "off"),
    ("warp", "registers", "off"),
    ("block", "reread", "on"),
)
"""Who has a row of a kernel behind that reduces, where the row waits, and whether several blocks share it."""


def product_seeds(problem: Problem) -> list[Vector]:
    """Products on tensor cores, with each of the teams that kernels behind them may have."""
    if not traits_of(problem).products:
        return []
    found = [settled(problem, _vector(*way, *behind)) for way, behind in itertools.product(_WAYS, _BEHIND)]
    return [vector for vector in dict.fromkeys(found) if ("matrix_product", "library") not in vector]


def _vector(way: str, blocks: str, team: str, cache: str, split: str) -> Vector:
    return (
        ("block_size", "256"),
        ("grid_split", split),
        ("matrix_product", way),
        ("row_cache", cache),
        ("split_join", "last"),
        ("split_k", blocks),
        ("threads_per_row", team),
        ("vector_width", "4"),
    )
