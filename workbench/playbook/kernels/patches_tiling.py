"""Tiles of a convolution on tensor cores whose rows are places: these, and the patch of the input they see.

Owns the numbers; patches_kernel.py writes statements with them, and estimates count with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.playbook.analysis.matrix_products import worth_patches
from workbench.playbook.analysis.places import Places, flattened, met_taps_of, phases_of, places_of
from workbench.playbook.ir.program import Convolution
from workbench.playbook.kernels.product_tiling import TERMS, WAITING

THREADS = (256, 128)
"""Of a block. One of the first, or two of the second, fill a multiprocessor."""
_TWICE, _MOST_COLUMNS, _ROWS, _EIGHT = 64, 128, 16, 8
"""Columns of sums up to which a warp takes twice sixteen rows, so that there are registers for all; at most;
rows that tensor cores take of a warp; and columns that go together."""
ACROSS = (32, 16, 64, 128, 256, 8)
"""Places side by side."""
_LINE, _OF_SHORT_LINES = 32, 1.05
"""Places that are stored as a whole line, and how much longer a tile takes without."""
_STORED = 32
"""Channels that there is room for are a multiple of it: threads copy so many at a time, or a part."""
_CHUNKS = (16, 8)
"""Channels of results that change hands at a time."""
_FREE = 4
"""Floats between the channels of a warp's results: what four lanes have is in different banks."""
_APART = (12, 16, 20)
"""Banks from a line of a patch to the next: eight places are in others than eight of the line below."""
_BANKS, _FLOAT_BYTES, VECTOR = 32, 4, 4
_MOST_BYTES = 227 * 1024
_MOST_COPIES = 8
"""Elements of a patch that a thread copies, of one channel."""


@dataclass(frozen=True)
class PatchTiling:
    """The tiling of a convolution."""

    threads: int
    down: int
    """Rows of places of a tile."""
    across: int
    """Places of such a row."""
    box: tuple[int, int]
    """Rows of places that a warp has, and places of such a row."""
    columns: int
    """Columns of sums: channels of a tile, rounded up to eight."""
    channel_tiles: int
    """Tiles that have all channels of a place."""
    stored: int
    """Channels that there is room for in shared memory."""
    chunk: int
    """Channels of results that change hands together."""
    patch: tuple[int, int, int]
    """What a tile sees of a channel: planes, rows and elements of a row."""
    pitch: int
    """Floats from one row of a patch to the next: with room for whole vectors."""
    ring: int
    """Patches that there is room for."""
    pieces: int
    """Pieces of a tile."""
    one_set: bool
    """True where all tiles meet the same weights."""

    @property
    def blocks(self) -> int:
        """That fill a multiprocessor."""
        return THREADS[0] // self.threads

    @property
    def twice(self) -> int:
        """Times that a warp has sixteen rows."""
        return 2 if self.columns <= _TWICE else 1

    @property
    def line(self) -> int:
        """Floats from one channel of a warp's results to the next."""
        return self.twice * _ROWS + _FREE

    @property
    def kept(self) -> bool:
        """True where there is room for all weights, taken apart: they stay."""
        return self.one_set and self._bytes(self.pieces, 1) <= _MOST_BYTES // self.blocks

    @property
    def channel(self) -> int:
        """Floats from one patch to the next."""
        planes, rows, _ = self.patch
        return planes * rows * self.pitch

    @property
    def shared_bytes(self) -> int:
        """Pieces of weights in two parts, pieces of them on the way, patches, and results."""
        return self._bytes(self.pieces, 1) if self.kept else self._bytes(2, WAITING)

    def _bytes(self, apart: int, coming: int) -> int:
        weights = (2 * apart + coming) * self.stored * TERMS
        return _FLOAT_BYTES * (
            weights + self.ring * self.channel + self.threads // 32 * self.chunk * self.line
        )

    @property
    def has_room(self) -> bool:
        """True where a block of these threads can be on the card, as many as fill a multiprocessor."""
        copies = math.ceil(math.prod(self.patch) / self.threads)
        return self.shared_bytes <= _MOST_BYTES // self.blocks and copies <= _MOST_COPIES

    def tiles(self, made: Convolution, sizes: Mapping[str, int]) -> int:
        """Of all images, groups and kinds of places."""
        *outer, across = [places_of(made, side).made.at(sizes) for side in flattened(made).sides]
        down = outer.pop() if outer else 1
        planes = math.prod(outer) * made.batch.at(sizes) * made.groups.at(sizes) * phases_of(made)
        planes *= self.channel_tiles
        return planes * math.ceil(down / self.down) * math.ceil(across / self.across)


def patches_tiling(made: Convolution, threads: int, cases: Sequence[Mapping[str, int]]) -> PatchTiling | None:
    """The tiling with the fewest tiles, and of these with the smallest patch; None where none has room."""
    channels, reads = made.made.number, made.read.number
    if channels is None or reads is None or threads not in THREADS or not worth_patches(made, cases):
        return None
    found = [
        tiling
        for across in ACROSS
        if (tiling := _tiling(made, (channels, reads), threads, across)) is not None and tiling.has_room
    ]

    def cost(tiling: PatchTiling) -> tuple[float, int]:
        more = 1.0 if tiling.across >= _LINE else _OF_SHORT_LINES
        return more * sum(tiling.tiles(made, case) for case in cases), math.prod(tiling.patch)

    return min(found, key=cost, default=None)


def _tiling(made: Convolution, channels: tuple[int, int], threads: int, across: int) -> PatchTiling | None:
    """The tiling with so many places side by side; None where these are no part of a block's."""
    made_channels, reads = channels
    channel_tiles = math.ceil(made_channels / _MOST_COLUMNS)
    columns = math.ceil(made_channels / channel_tiles / _EIGHT) * _EIGHT
    places = threads // 32 * _ROWS * (2 if columns <= _TWICE else 1)
    sides_of = flattened(made).sides
    if places % across or (len(sides_of) == 1 and across != places):
        return None
    box = _box(made, threads // 32, (places // across, across))
    if box is None or (made.across_channels and channel_tiles > 1):
        return None
    taps = met_taps_of(made)
    sides = [places_of(made, side) for side in sides_of]
    planes = sides[0].taps if len(sides) > 2 else 1
    down = places // across
    rows = _seen(sides[-2], down) if len(sides) > 1 else 1
    elements = _seen(sides[-1], across)
    # A vector begins before the first element that is seen, and another ends behind the last.
    pitch = math.ceil((elements + VECTOR - 1) / VECTOR) * VECTOR
    while rows > 1 and pitch % _BANKS not in _APART:
        pitch += VECTOR
    return PatchTiling(
        threads=threads,
        down=down,
        across=across,
        box=box,
        columns=columns,
        channel_tiles=channel_tiles,
        stored=math.ceil(columns / _STORED) * _STORED,
        chunk=columns if made.across_channels else next(one for one in _CHUNKS if columns % one == 0),
        patch=(planes, rows, elements),
        pitch=pitch,
        # Channels that as many pieces in a row may have terms of, where one of them is a tile's last.
        ring=(WAITING * TERMS - 2) // taps + 3,
        pieces=math.ceil(reads * taps / TERMS),
        one_set=made.groups.is_one and phases_of(made) == 1 and channel_tiles == 1,
    )


def _box(made: Convolution, warps: int, tile: tuple[int, int]) -> tuple[int, int] | None:
    """The widest box of a warp's places with whole windows, where results are pooled; None where none has."""
    *outer, down, right = (1, 1, *made.windows) if made.windows else (1, 1)
    if made.windows and (phases_of(made) > 1 or math.prod(outer) > 1):
        return None
    places = math.prod(tile) // warps
    boxes = [(places // wide, wide) for wide in sorted({tile[1], *ACROSS}, reverse=True) if wide <= places]
    fits = (box for box in boxes if tile[0] % box[0] == 0 and tile[1] % box[1] == 0)
    return next((box for box in fits if box[0] % down == 0 and box[1] % right == 0), None)


def _seen(side: Places, places: int) -> int:
    """Elements that so many neighbouring places see along a side."""
    return (places - 1) * side.step + (side.taps - 1) * side.side.dilation + 1
