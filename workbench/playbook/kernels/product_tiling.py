"""Tiles of a product of matrices on tensor cores: what a block has of the results, what waits on the chip.

Owns the numbers; tensor_core_kernel.py writes statements with them. They were tried on an H100
(docs/notes/2026-11-26-products-of-matrices.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from workbench.playbook.analysis.places import met_taps_of, phases_of, places_of
from workbench.playbook.ir.program import Convolution, InPlaceOfCall, Matrix
from workbench.playbook.ir.sizes import Size, number, product

THREADS = 256
"""Two groups of four warps: each has 64 rows of a block's results."""
TALL, WIDE, TERMS = 128, 128, 32
"""Rows and columns of a block, and the terms that it takes in at a time."""
LOW = 64
"""Rows of a block where there are no more: its two groups of warps have half of the terms each."""
ROWS_OF_WARP = 16
CLUSTERS = {2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 8: 14, 16: 7}
"""Clusters of so many blocks that run at the same time where a block fills a multiprocessor, of PROCESSORS:
these are in groups that have room for no whole number of clusters (cuOccupancyMaxActiveClusters; of eight
blocks one less than it says, as other chips have other multiprocessors left out)."""
PROCESSORS = 132
SPLITS = (1, *CLUSTERS)
"""Blocks that may share the terms of a tile."""
VECTOR = 4
"""Floats that are copied together, where they lie so."""
WAITING = 4
"""Pieces of so many terms that there is room for, one at hand, others on their way. They are taken in turn,
and a tile is a whole number of rounds."""
FEW_PIECES = 3
"""Pieces of a tile from which there are whole rounds of them; of fewer, a tile is a round."""
MOST_IN_THREES = 12
"""Pieces of a tile up to which rounds may be of three, if that leaves fewer pieces empty."""
LONG, SOME = 32, 5
"""Pieces of a tile from which sums join the totals after four of them, and after two; below, after each. A
tensor core cuts off what a sum has no room for. Of 4096 terms, standard normal, results are off by 5.9e-5
(root mean square) after four, where cuBLAS's float32 is by 7.3e-5; by 3.1e-5 after two, in 6% more time; by
180e-5 without totals, in 4% less. Of 144 terms around a large mean they are off by 1.12 of what is allowed
after four."""
LINE_BYTES = 128
"""Terms of a channel, or of a column, in shared memory: the longest lines that tensor cores read."""
TOGETHER = 8
"""Tiles one below the other before the next column: blocks that run together share what they read."""
_FREE_BY_TERMS, _FREE_BY_ROWS = 4, 8
"""Floats between lines of the left factor in shared memory: four lanes with neighbouring terms of eight rows
are in different banks then."""
FREE_OF_LINE = 8
LINE = 32 + FREE_OF_LINE
"""Floats from one line of a warp's results to the next, in shared memory: four are in different banks, and
behind the results there is room for what all results of a row take."""
_BYTES = 4


def shape_of(made: InPlaceOfCall) -> tuple[Size, Size, Size, Size]:
    """Products side by side, and rows, columns and terms of each.

    A convolution is one a group: a row is a channel, a column a place of an image, a term a tap of a channel.
    A transposed one with steps is one for each kind of places.
    """
    if not isinstance(made, Convolution):
        return made.batch, made.rows, made.columns, made.terms
    columns = product((made.batch, *(places_of(made, side).made for side in made.sides)))
    return made.groups * number(phases_of(made)), made.made, columns, made.read * number(met_taps_of(made))


def steps_of(factor: Matrix, across: Size, terms: Size) -> list[Size]:
    """Sizes that vectors of a factor have to divide: what lies side by side, and steps between such lines."""
    beside = (terms, factor.across) if factor.lies_by_terms else (across, factor.terms)
    return [step for step in (*beside, factor.batch, factor.offset) if not step.is_zero]


def tiles_of(made: InPlaceOfCall, sizes: Mapping[str, int], tall: int) -> int:
    """Of ``tall`` rows each, of all products side by side."""
    batch, rows, columns, _ = shape_of(made)
    down = math.ceil(rows.at(sizes) / tall)
    return down * math.ceil(columns.at(sizes) / WIDE) * batch.at(sizes)


def tall_of(rows: Size, cases: Iterable[Mapping[str, int]]) -> int:
    """Rows of a block, by what there are at the sizes whose speed matters."""
    return LOW if max((rows.at(case) for case in cases), default=TALL) <= LOW else TALL


def clusters_of(blocks: int, processors: int) -> int:
    """Clusters that run at the same time."""
    return processors if blocks == 1 else CLUSTERS[blocks] * processors // PROCESSORS


def pieces_of(terms: int, blocks: int = 1) -> tuple[int, int]:
    """Pieces that a block takes in of a tile, and after how many of them sums join the totals."""
    of_all = math.ceil(terms / TERMS)
    needed = math.ceil(of_all / blocks)
    threes, fours = math.ceil(needed / 3) * 3, math.ceil(needed / WAITING) * WAITING
    stages = 3 if needed <= MOST_IN_THREES and threes < fours else WAITING
    at_once = needed if needed < FEW_PIECES else stages
    joined = at_once if of_all >= LONG else 2 if of_all >= SOME and stages == WAITING else 1
    return math.ceil(needed / at_once) * at_once, joined


def left_line(factor: Matrix, tall: int) -> int:
    """Floats from one line of the left factor to the next, in shared memory."""
    return TERMS + _FREE_BY_TERMS if factor.lies_by_terms else tall + _FREE_BY_ROWS


def left_floats(factor: Matrix, tall: int) -> int:
    """Of a piece of the left factor."""
    return left_line(factor, tall) * (tall if factor.lies_by_terms else TERMS)


def shared_bytes(left: Matrix, tall: int, right_waits: bool) -> int:
    """Two pieces of the right factor, each in two parts, pieces of both as they come, and results."""
    piece = WIDE * TERMS
    coming = WAITING * (left_floats(left, tall) + (piece if right_waits else 0))
    return _BYTES * (4 * piece + coming + THREADS // 32 * 16 * LINE)
