"""Tiles of a convolution of few channels on tensor cores: its places, and the patch of the input they see.

Owns the numbers; few_channels_kernel.py writes statements with them, and estimates count with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.playbook.analysis.matrix_products import channels_across, worth_few_channels
from workbench.playbook.analysis.places import Places, met_taps_of, phases_of, places_of
from workbench.playbook.ir.program import Convolution
from workbench.playbook.kernels.product_tiling import TERMS, THREADS, WAITING

PLACES = 256
"""Of a tile: a warp has 32 of them, twice sixteen rows of what tensor cores take."""
_SHAPES = ((8, 32), (16, 16), (4, 64), (2, 128), (1, 256), (32, 8))
"""Places one below the other, and side by side."""
_STORED = 32
"""Channels that there is room for are a multiple of it: 256 threads copy so many at a time, or a part."""
_CHUNKS = (16, 8)
"""Channels of results that change hands at a time."""
LINE = 32 + 4
"""Floats from one channel of a warp's results to the next: what four lanes have is in different banks."""
_APART = range(10, 23)
"""Banks from a line of a patch to the next: eight places are in others than eight of the line below."""
_BANKS, _FLOAT_BYTES = 32, 4
_MOST_BYTES = 227 * 1024
MOST_COPIES = 8
"""Elements of a patch that a thread copies, of one channel."""


@dataclass(frozen=True)
class FewChannels:
    """The tiling of a convolution."""

    down: int
    """Rows of places of a tile."""
    across: int
    """Places of such a row."""
    columns: int
    """Columns of sums: channels, rounded up to eight."""
    stored: int
    """Channels that there is room for in shared memory."""
    chunk: int
    """Channels of results that change hands together."""
    patch: tuple[int, int, int]
    """What a tile sees of a channel: planes, rows and elements of a row."""
    pitch: int
    """Floats from one row of a patch to the next."""
    ring: int
    """Patches that there is room for."""

    @property
    def elements(self) -> int:
        """That a tile sees of a channel."""
        return math.prod(self.patch)

    @property
    def copies(self) -> int:
        """That a thread copies of a channel, at most."""
        return math.ceil(self.elements / THREADS)

    @property
    def channel(self) -> int:
        """Floats from one patch to the next."""
        planes, rows, _ = self.patch
        return planes * rows * self.pitch

    @property
    def shared_bytes(self) -> int:
        """Two pieces of weights in two parts, pieces of them on the way, patches, and results."""
        weights = (4 + WAITING) * self.stored * TERMS
        return _FLOAT_BYTES * (weights + self.ring * self.channel + THREADS // 32 * self.chunk * LINE)

    def tiles(self, made: Convolution, sizes: Mapping[str, int]) -> int:
        """Of all images, groups and kinds of places."""
        *outer, across = [places_of(made, side).made.at(sizes) for side in made.sides]
        down = outer.pop() if outer else 1
        planes = math.prod(outer) * made.batch.at(sizes) * made.groups.at(sizes) * phases_of(made)
        return planes * math.ceil(down / self.down) * math.ceil(across / self.across)


def few_channels_tiling(made: Convolution, cases: Sequence[Mapping[str, int]]) -> FewChannels | None:
    """The tiling with the fewest tiles, and of these with the smallest patch; None where none has room."""
    columns = channels_across(made)
    if columns is None or not worth_few_channels(made, cases):
        return None
    found = [
        tiling
        for down, across in _SHAPES
        if (len(made.sides) > 1 or down == 1)
        and (tiling := _tiling(made, columns, down, across)).shared_bytes <= _MOST_BYTES
        and tiling.copies <= MOST_COPIES
    ]

    def cost(tiling: FewChannels) -> tuple[int, int]:
        return sum(tiling.tiles(made, case) for case in cases), tiling.elements

    return min(found, key=cost, default=None)


def _tiling(made: Convolution, columns: int, down: int, across: int) -> FewChannels:
    taps = met_taps_of(made)
    sides = [places_of(made, side) for side in made.sides]
    planes = sides[0].taps if len(sides) > 2 else 1
    rows = _seen(sides[-2], down) if len(sides) > 1 else 1
    elements = _seen(sides[-1], across)
    pitch = elements
    while rows > 1 and pitch % _BANKS not in _APART:
        pitch += 1
    return FewChannels(
        down=down,
        across=across,
        columns=columns,
        stored=math.ceil(columns / _STORED) * _STORED,
        chunk=next(chunk for chunk in _CHUNKS if columns % chunk == 0),
        patch=(planes, rows, elements),
        pitch=pitch,
        # Channels that as many pieces in a row may have terms of, where one of them is a tile's last.
        ring=(WAITING * TERMS - 2) // taps + 3,
    )


def _seen(side: Places, places: int) -> int:
    """Elements that so many neighbouring places see along a side."""
    return (places - 1) * side.step + (side.taps - 1) * side.side.dilation + 1
