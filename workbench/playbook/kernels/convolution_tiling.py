"""Tiles of a convolution's results: what a block, a warp and a lane have of them, and what waits on the chip.

Owns the numbers; convolution_kernel.py writes statements with them.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from workbench.playbook.analysis.turning import MOST_STATIC_BYTES
from workbench.playbook.ir.program import Convolution, Side
from workbench.playbook.schedules.schedule import Schedule

LANES = 32
TILES, BLOCKS = ("8x8", "8x4", "4x8", "16x4"), ("128", "64", "256")
"""Channels and places of a thread, and threads of a block, that techniques offer."""
_WIDTHS = (32, 16, 8, 4)
_PIECES = (8, 4, 2, 1)
_ROOMY_BYTES = 36 * 1024
"""Shared memory of a block, so that several find room: a volume of 8 channels takes 3140 us on an H100 with
two channels at a time (16 kB), 3343 with one; 32 channels of a plane 1992 with four at a time and four on
their way (21 kB), 2019 with eight (docs/notes/2026-11-26-convolutions-in-flight.md)."""
PADDING = 4
"""Floats between the weights of neighbouring taps in shared memory: without them, the lanes that store
weights of different taps all meet in one bank: a convolution of 8 channels took 735 us, and 637 with them."""
_BYTES = 4
_MOST_SUMS = 128
"""Of a thread, in registers: with 8 x 16 of them it has 251 of the 255 that there are."""
_BANKS, _MOST_FREE = 32, 16
_LESS_WIDE = 0.02
"""Of the time, for each line more that a warp's lanes are of: they meet in the banks of shared memory, and
store to more places of memory (a guess)."""
_LESS_TALL = 1.0
"""Of the time, over a thread's places one below the other: a weight goes into fewer sums (a guess)."""


@dataclass(frozen=True)
class Tiling:
    """A lane has ``each`` channels at ``below`` x ``beside`` places, a block ``tall`` x ``wide`` places.

    Of a line ``tall`` is 1, and what a lane would have below lies further along, ``LANES`` steps each.
    """

    each: int
    below: int
    """Places of a lane, one below the other."""
    beside: int
    """Places of a lane, side by side: of a transposed convolution, those that a step of the input makes."""
    channels: int
    """Of a block."""
    across: int
    """Lanes of a warp that lie side by side; of a line, steps of the whole block."""
    tall: int
    piece: int
    """Channels of the input that are taken in at a time, from shared memory."""
    waiting: int
    """Pieces that it has room for: two, if one is on its way while the other is taken in."""
    threads: int

    @property
    def wide(self) -> int:
        """Places of a block from left to right."""
        return self.across * self.beside


def tiling_of(made: Convolution, schedule: Schedule, cases: Iterable[Mapping[str, int]]) -> Tiling | None:
    """The tiles that a schedule asks for, fitted to the declared sizes; None where there is no room."""
    each, below = schedule.convolve
    if not each or made.dtype != "f32":
        return None
    cases = list(cases)
    warps = schedule.threads // LANES
    most = max((made.made.at(case) for case in cases), default=each)
    channels = each * min(warps, 1 << (math.ceil(most / each) - 1).bit_length())
    if warps % (channels // each):
        return None
    beside = made.right.stride if made.transposed else 1
    beneath = warps // (channels // each)
    if made.down is None:
        below = _along(made.right, each * beside, LANES * beside * beneath, below, cases)
        across, tall = LANES * below * beneath, 1
    else:
        across, below = _shape(made, made.down, each * beside, below, beneath, cases)
        tall = LANES // across * below * beneath
    if each * below * beside > _MOST_SUMS:
        return None
    reads = max(max((made.read.at(case) for case in cases), default=1), 1)
    for pieces, piece in itertools.product((2, 1), _PIECES):
        own = min(piece, reads)
        waiting = 1 if _is_all(made, own) else pieces
        found = Tiling(each, below, beside, channels, across, tall, own, waiting, schedule.threads)
        most_bytes = _ROOMY_BYTES if own > 1 else MOST_STATIC_BYTES
        if shared_bytes(made, found) <= most_bytes:
            return found
    return None


def _along(line: Side, sums: int, step: int, most: int, cases: Sequence[Mapping[str, int]]) -> int:
    """Places of a thread along a line, of ``sums`` each: as many as fit, and no more than fill a block."""
    longest = max((line.made.at(case) for case in cases), default=step * most)
    while most > 1 and (sums * most > _MOST_SUMS or step * most // 2 >= longest):
        most //= 2
    return most


def _shape(
    made: Convolution, down: Side, sums: int, below: int, beneath: int, cases: Sequence[Mapping[str, int]]
) -> tuple[int, int]:
    """Lanes side by side, and places of a thread one below the other: those that leave the fewest places of a
    plane's tiles empty, and rather many. A line of a thread's has so many ``sums``; a block has ``beneath``
    warps one below the other."""
    right = made.right
    beside = right.stride if made.transposed else 1
    step = down.stride if made.transposed else 1
    most = step * math.ceil(below / step)
    while most > step and most * sums > _MOST_SUMS:
        most -= step

    def cost(shape: tuple[int, int]) -> float:
        lanes, rows = shape
        wide, tall = lanes * beside, LANES // lanes * rows * beneath
        places = sum(
            math.ceil(right.made.at(case) / wide) * wide * math.ceil(down.made.at(case) / tall) * tall
            for case in cases
        )
        return places * (1.0 + _LESS_WIDE * (LANES // lanes - 1)) * (1.0 + _LESS_TALL / rows)

    heights = range(most, most // 2, -step)
    return min(((lanes, rows) for rows in heights for lanes in _WIDTHS), key=cost)


def apart(side: Side) -> int:
    """Of a transposed convolution: weights so far from one another along a side meet the same places."""
    return side.stride // math.gcd(side.stride, side.dilation)


def met(made: Convolution, side: Side) -> int:
    """Weights along a side that meet one place, at the most: of a transposed one, every so many."""
    return math.ceil(side.taps / apart(side)) if made.transposed else side.taps


def first_met(side: Side) -> int:
    """Of a transposed convolution: the first element that a step's places meet, counted from the step's own.

    An element goes ``stride`` places on for each before it, ``dilation`` for each weight, less the padding.
    """
    return -(((side.taps - 1) * side.dilation - side.padding) // side.stride)


def seen(made: Convolution, side: Side, places: int) -> int:
    """Elements along a side that so many neighbouring places are made of."""
    if made.transposed:
        last = (side.stride - 1 + side.padding) // side.stride
        return math.ceil(places / side.stride) + last - first_met(side)
    return (places - 1) * side.stride + (side.taps - 1) * side.dilation + 1


def left_free(made: Convolution, tiling: Tiling) -> int:
    """Floats between rows of the input in shared memory, so that the lanes of a warp meet in few banks."""
    return min(range(_MOST_FREE), key=lambda free: (lanes_a_bank(made, tiling, free), free))


@lru_cache(maxsize=4096)
def _at_most_a_bank(across: int, down: int, beside: int) -> int:
    """Lanes of a warp of so many places in a row, each some words from its neighbours, that share a bank."""
    words = (lane // across * down + lane % across * beside for lane in range(LANES))
    return max(Counter(word % _BANKS for word in words).values())


def lanes_a_bank(made: Convolution, tiling: Tiling, free: int) -> int:
    """Lanes of a warp that read from the same bank at a time, at the most: 1 where none waits for another."""
    down, right = made.down, made.right
    beside = 1 if made.transposed else right.stride
    if down is None:
        return math.gcd(beside, _BANKS)
    row = seen(made, right, tiling.wide) + free
    lines = tiling.below // down.stride if made.transposed else tiling.below * down.stride
    return _at_most_a_bank(tiling.across, lines * row, beside)


def layers(made: Convolution) -> int:
    """Planes of a volume that a place is made of; 1 for planes."""
    return met(made, made.deep) if made.deep else 1


def _is_all(made: Convolution, piece: int) -> bool:
    """True where a piece has all channels of the input, whatever the sizes."""
    reads = made.read.number
    return reads is not None and reads <= piece


def shared_bytes(made: Convolution, tiling: Tiling) -> int:
    """What waits in shared memory: pieces of the input's channels, their weights, results to be turned."""
    down, right = made.down, made.right
    row = seen(made, right, tiling.wide) + left_free(made, tiling)
    elements = row * (seen(made, down, tiling.tall) if down else 1)
    weights = (down.taps if down else 1) * right.taps * (tiling.channels + PADDING)
    turned = tiling.threads * tiling.beside if tiling.beside > 1 else 0
    return _BYTES * (turned + tiling.waiting * tiling.piece * layers(made) * (elements + weights))
