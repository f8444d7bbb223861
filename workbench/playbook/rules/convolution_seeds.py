"""Vectors that a search may start from where a kernel can make a convolution.

Owns which tiles and blocks are tried, and what the kernels behind them do; seeds.py chooses among these and
all others.
"""

from __future__ import annotations

import itertools

from workbench.model import Problem, Vector
from workbench.playbook.graph.rewrites import DEPTHWISE
from workbench.playbook.kernels.product_tiling import SPLITS
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

_TILES = (
    ("each", "256", "each", "off"),
    ("each", "128", "each", "off"),
    ("three_tf32", "256", "each", "off"),
    *(("three_tf32", "256", str(blocks), "off") for blocks in SPLITS),
    ("patches", "256", "1", "off"),
    ("patches", "128", "1", "off"),
    ("patches", "256", "1", "on"),
    ("patches", "128", "1", "on"),
    ("8x8", "128", "1", "off"),
    ("8x4", "128", "1", "off"),
    ("4x8", "128", "1", "off"),
    ("8x8", "256", "1", "off"),
    ("16x4", "128", "1", "off"),
    ("8x4", "256", "1", "off"),
)
"""Channels and places of a thread, threads of a block, blocks that share the terms of a tile, and whether
16-bit elements of two channels share a word."""
_BEHIND = (
    ("block", "reread", "off"),
    ("block", "registers", "off"),
    ("warp", "registers", "off"),
    ("block", "reread", "on"),
)
"""Who has a row of a kernel behind that reduces, where the row waits, and whether several blocks share it."""


def convolution_seeds(problem: Problem) -> list[Vector]:
    """Tiles of every size, each with the teams that kernels behind it may have.

    A convolution of a single channel can be written out as a sum, or be made in tiles.
    """
    found: dict[Vector, None] = {}
    for written_out in ("on", "off"):
        without = frozenset([DEPTHWISE]) if written_out == "off" else frozenset[str]()
        if not traits_of(problem, without).convolutions:
            continue
        for tile, behind in itertools.product(_TILES, _BEHIND):
            vector = settled(problem, ((DEPTHWISE, written_out), *_vector(*tile, *behind)))
            if dict(vector).get("convolution") == tile[0]:
                found[vector] = None
    return list(found)


def _vector(tile: str, threads: str, blocks: str, pairs: str, team: str, cache: str, split: str) -> Vector:
    return (
        ("block_size", threads),
        ("channel_pairs", pairs),
        ("convolution", tile),
        ("grid_split", split),
        ("matrix_product", "each" if tile == "each" else "library"),
        ("row_cache", cache),
        ("split_join", "last"),
        ("split_k", blocks),
        ("threads_per_row", team),
        ("vector_width", "4"),
    )
