"""What tiles of a product take on tensor cores, and how many blocks to a tile take least.

Owns the microseconds, as products timed on an H100 have them (docs/notes/2026-11-26-products-of-matrices.md,
2026-11-26-few-tiles-few-terms.md), and which number of blocks a product has. The kernel is written by it, and
the model of time goes by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from workbench.playbook.ir.program import Convolution, InPlaceOfCall
from workbench.playbook.kernels.product_tiling import (
    CLUSTERS,
    SPLITS,
    TALL,
    TERMS,
    clusters_of,
    pieces_of,
    shape_of,
    tall_of,
    tiles_of,
)
from workbench.playbook.schedules.schedule import EACH

_PIECE_US, _LOW_US = 1.09, 0.85
"""Of 128 rows, and of 64. The latter is a guess for matrices."""
_LOOKED_UP_US = 0.2
"""More where a convolution's elements are looked up one by one."""
_JOINING_US = {1: 0.17, 2: 0.06}
"""More where sums join the totals after every piece, or after two."""
_A_TILE_US, _PLACES_US = 2.1, 1.4
"""Until a tile's results are stored, and more where their places are to be found: 49,152 tiles of 256 terms
take 4352 us (level1/11 of KernelBench), their pieces 3560 of these; 65,536 of 32 terms 1725 (level1/9)."""
_MEETING_US = 8.0
"""Of blocks that share a tile, for what they exchange."""


def tiles_us(
    made: InPlaceOfCall,
    blocks: int,
    sizes: Mapping[str, int],
    tall: int,
    processors: int,
    more_us: tuple[float, float] = (0.0, 0.0),
) -> float:
    """Microseconds of all tiles of ``tall`` rows, with so many blocks to a tile, in rounds.

    ``more_us`` a piece and a tile take besides, for how factors lie and for what follows the product.
    """
    is_convolution = isinstance(made, Convolution)
    pieces, joined = pieces_of(shape_of(made)[3].at(sizes), blocks)
    piece_us = (_PIECE_US if tall == TALL else _LOW_US) + _JOINING_US.get(joined, 0.0) + more_us[0]
    tile_us = _A_TILE_US + more_us[1]
    if is_convolution:
        piece_us, tile_us = piece_us + _LOOKED_UP_US, tile_us + _PLACES_US
    rounds = math.ceil(tiles_of(made, sizes, tall) / clusters_of(blocks, processors))
    return rounds * (tile_us / blocks + pieces * piece_us + (_MEETING_US if blocks > 1 else 0.0))


def blocks_of(made: InPlaceOfCall, asked: int, cases: Sequence[Mapping[str, int]], processors: int) -> int:
    """Blocks that share the terms of a tile of this product, at the sizes whose speed matters.

    ``asked``, less where its tiles are many: what a network's last layers want, of few places each, would
    have blocks of its first layer wait for one another, though its tiles are enough for the device. With
    ``EACH``, the number with the least time (a geometric mean over the sizes).
    """
    if asked == EACH:
        worth = [1, *(n for n in CLUSTERS if all(_has_two(made, n, sizes) for sizes in cases))]
        return min(worth, key=lambda blocks: _together_us(made, blocks, cases, processors))
    fewest = min((tiles_of(made, sizes, _tall(made, cases)) for sizes in cases), default=1)
    return max(n for n in SPLITS if n == 1 or (n <= asked and _are_few(fewest, n, processors)))


def splits_of(made: InPlaceOfCall, cases: Sequence[Mapping[str, int]], processors: int) -> tuple[int, ...]:
    """Numbers of blocks that may share the terms of a tile: where there are few tiles, of many terms.

    With half as many blocks no more than two tiles a multiprocessor, each of which has two pieces and more.
    """
    tall = _tall(made, cases)

    def worth(blocks: int, sizes: Mapping[str, int]) -> bool:
        return _are_few(tiles_of(made, sizes, tall), blocks, processors) and _has_two(made, blocks, sizes)

    return (1, *(blocks for blocks in CLUSTERS if any(worth(blocks, sizes) for sizes in cases)))


def _together_us(
    made: InPlaceOfCall, blocks: int, cases: Sequence[Mapping[str, int]], processors: int
) -> float:
    tall = _tall(made, cases)
    return math.prod(tiles_us(made, blocks, sizes, tall, processors) for sizes in cases)


def _tall(made: InPlaceOfCall, cases: Sequence[Mapping[str, int]]) -> int:
    return tall_of(shape_of(made)[1], cases)


def _has_two(made: InPlaceOfCall, blocks: int, sizes: Mapping[str, int]) -> bool:
    """True where each of so many blocks has two pieces of a tile, or more."""
    return shape_of(made)[3].at(sizes) >= 2 * blocks * TERMS


def _are_few(tiles: int, blocks: int, processors: int) -> bool:
    return tiles * blocks // 2 <= 2 * processors
