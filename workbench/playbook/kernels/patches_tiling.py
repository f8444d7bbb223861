"""Tiles of a convolution on tensor cores whose rows are places: these, and the patch of the input they see.

Owns the numbers; patches_kernel.py writes statements with them, and estimates count with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.model import DTYPE_BYTES, DType
from workbench.playbook.analysis.matrix_products import worth_patches
from workbench.playbook.analysis.places import Places, flattened, met_taps_of, phases_of, places_of
from workbench.playbook.ir.program import Convolution
from workbench.playbook.kernels.product_tiling import CLUSTERS, LINE_BYTES, PROCESSORS, WAITING

THREADS = (256, 128)
"""Of a block."""
_BLOCKS = {256: ((1, 128),), 128: ((4, 64), (3, 128), (2, 128))}
"""Blocks that a multiprocessor may have at the same time, and registers of a thread for its sums up to which
there are enough for that. While some store their results others multiply: of 64 x 3 x 224 x 224 to 64 with a
pool three take 256 us, two 314; of 64 x 8 x 128 x 128 to 32 four take 112, two 124."""
_TWICE, _MOST_COLUMNS, _ROWS, _EIGHT = {4: 64, 2: 128}, 128, 16, 8
"""Columns of sums up to which a warp takes twice sixteen rows, so that there are registers for all, by the
bytes of a factor: those of 16 bits have no totals beside their sums. Columns at most; rows that tensor cores
take of a warp; and columns that go together."""
ACROSS = (32, 16, 64, 128, 256, 8)
"""Places side by side."""
_LINE, _OF_SHORT_LINES = 32, 1.05
"""Places that are stored as a whole line, and how much longer a tile takes without."""
_STORED = 32
"""Channels that there is room for are a multiple of it: threads copy so many at a time, or a part."""
_CHUNKS = (16, 8)
"""Channels of results that change hands at a time; all that there is room for where blocks of a cluster wait
for one another to do so, about a microsecond each time."""
FREE = 4
"""Floats between the channels of a warp's results: what four lanes have is in different banks, and there is
room for what all results of a channel take."""
_APART = {4: (12, 16, 20), 2: (12, 16, 20, 24)}
"""Banks from a line of a patch to the next, by the bytes of an element: eight places are in others than eight
of the line below."""
_BANKS, _FLOAT_BYTES, _VECTOR_BYTES = 32, 4, 16
_FEW_PIECES = 4
"""Pieces of a tile up to which the last may be half as long: of more it costs more to ask, a tenth of 9."""
WEIGHT_STAGES = WAITING + 1
"""Pieces of 16-bit weights that there is room for: tensor cores may be at the last one when another comes."""


def pairable(made: Convolution) -> bool:
    """True where channels of 16-bit numbers can be read in pairs, and places are all of one kind."""
    return made.dtype != "f32" and (made.read.number or 1) % 2 == 0 and phases_of(made) == 1


def own_channels(made: Convolution) -> int | None:
    """Channels of the input that a block takes in, of a group; None where they are no number."""
    return None if made.read.number is None else made.read.number // made.blocks


def shares_of(made: Convolution, threads: int, cases: Sequence[Mapping[str, int]]) -> Iterator[int]:
    """Numbers of blocks that may share the terms of a tile: where there are few tiles, of many terms.

    Each reads as many channels, and has two pieces or more. With half as many blocks there are no more than
    two for each place on a multiprocessor.
    """
    yield 1
    tiling = None if made.transposed or made.paired else patches_tiling(made, threads, cases)
    if tiling is None or made.read.number is None:
        return
    tiles = max((tiling.tiles(made, sizes) for sizes in cases), default=0)
    for blocks in CLUSTERS:
        few = tiles * blocks // 2 <= 2 * PROCESSORS * tiling.blocks
        if few and made.read.number % blocks == 0 and tiling.pieces >= 2 * blocks:
            yield blocks


def terms_of(dtype: DType) -> int:
    """Terms that a tile takes in at a time, a piece."""
    return LINE_BYTES // DTYPE_BYTES[dtype]


def vector_of(dtype: DType) -> int:
    """Elements that are copied together, where they lie so."""
    return _VECTOR_BYTES // DTYPE_BYTES[dtype]


_MOST_BYTES = 227 * 1024
_MOST_COPIES = 8
"""Elements of a patch that a thread copies, of one channel."""


@dataclass(frozen=True)
class PatchTiling:
    """The tiling of a convolution."""

    threads: int
    blocks: int
    """That a multiprocessor has at the same time."""
    down: int
    """Rows of places of a tile."""
    across: int
    """Places of such a row."""
    box: tuple[int, int]
    """Rows of places that a warp has, and places of such a row."""
    twice: int
    """Times that a warp has sixteen rows."""
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
    """Elements from one row of a patch to the next: with room for whole vectors."""
    ring: int
    """Patches that there is room for."""
    pieces: int
    """Pieces of a tile."""
    last: int
    """Terms of the last of them."""
    one_set: bool
    """True where all tiles meet the same weights."""
    dtype: DType
    """Of the factors."""
    paired: bool
    """True where an element of a patch is one of two channels, in 32 bits."""

    @property
    def terms(self) -> int:
        """Of a piece."""
        return terms_of(self.dtype)

    @property
    def vector(self) -> int:
        """Elements that are copied together, where they lie so."""
        return vector_of(self.dtype)

    @property
    def is_short(self) -> bool:
        """True where half of the last piece is left out, of factors of 16 bits."""
        return self.dtype != "f32" and self.pieces <= _FEW_PIECES and self.last <= self.terms // 2

    @property
    def registers(self) -> int:
        """Of a thread, for its sums, and their totals."""
        return self.twice * self.columns // 2 * (2 if self.dtype == "f32" else 1)

    @property
    def line(self) -> int:
        """Floats from one channel of a warp's results to the next."""
        return self.twice * _ROWS + FREE

    @property
    def kept(self) -> bool:
        """True where there is room for all weights, as tensor cores read them: they stay."""
        return self.one_set and self._bytes(*self._room(kept=True)) <= _MOST_BYTES // self.blocks

    @property
    def channel(self) -> int:
        """Elements from one patch to the next."""
        planes, rows, _ = self.patch
        return planes * rows * self.pitch

    @property
    def shared_bytes(self) -> int:
        """Pieces of weights, of float32 in two parts and on the way, patches, and results."""
        return self._bytes(*self._room(self.kept))

    def _room(self, kept: bool) -> tuple[int, int]:
        """Pieces of weights that are in two parts, and others."""
        if self.dtype == "f32":
            return (self.pieces, 1) if kept else (2, WAITING)
        return 0, self.pieces if kept else WEIGHT_STAGES

    def _bytes(self, apart: int, others: int) -> int:
        weights = (2 * apart + others) * self.stored * self.terms
        patches = self.ring * self.channel * (2 if self.paired else 1)
        return (
            DTYPE_BYTES[self.dtype] * (weights + patches)
            + _FLOAT_BYTES * self.threads // 32 * self.chunk * self.line
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
    channels, reads = made.made.number, own_channels(made)
    if channels is None or reads is None or threads not in THREADS or not worth_patches(made, cases):
        return None
    found = [
        tiling
        for across in ACROSS
        for twice in (2, 1)
        if (one := _tiling(made, (channels, reads), (threads, across, twice))) is not None
        for blocks, most in _BLOCKS[threads]
        for chunk in _chunks(made, one.columns)
        if one.registers <= most and (tiling := replace(one, blocks=blocks, chunk=chunk)).has_room
    ]

    def cost(tiling: PatchTiling) -> tuple[float, int, int, int]:
        more = 1.0 if tiling.across >= _LINE else _OF_SHORT_LINES
        tiles = more * sum(tiling.tiles(made, case) for case in cases)
        return tiles, math.prod(tiling.patch), -tiling.chunk, -tiling.blocks

    return min(found, key=cost, default=None)


def _chunks(made: Convolution, columns: int) -> Iterator[int]:
    """Channels of results that may change hands at a time, so that each time there are as many."""
    if made.across_channels:
        yield columns
    elif made.blocks == 1:
        yield next(one for one in _CHUNKS if columns % one == 0)
    else:
        yield from (one for one in range(_EIGHT, columns + 1, _EIGHT) if columns % one == 0)


def _tiling(made: Convolution, channels: tuple[int, int], asked: tuple[int, int, int]) -> PatchTiling | None:
    """The tiling of a block of so many threads, with so many places side by side, whose warps have so many
    times sixteen rows; None where the places are no part of a block's, or registers too few."""
    (made_channels, reads), (threads, across, twice) = channels, asked
    channel_tiles = math.ceil(made_channels / _MOST_COLUMNS)
    columns = math.ceil(made_channels / channel_tiles / _EIGHT) * _EIGHT
    wide = DTYPE_BYTES[made.dtype]
    places = threads // 32 * _ROWS * twice
    sides_of = flattened(made).sides
    most = 2 if columns <= _TWICE[wide] else 1
    if twice > most or (twice < most and made.dtype == "f32"):
        return None
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
    terms, vector = terms_of(made.dtype), vector_of(made.dtype)
    pitch = math.ceil((elements + vector - 1) / vector) * vector
    each = _FLOAT_BYTES if made.paired else wide
    while rows > 1 and pitch * each // _FLOAT_BYTES % _BANKS not in _APART[each]:
        pitch += vector
    of_patches = terms // 2 if made.paired else terms
    return PatchTiling(
        threads=threads,
        blocks=1,
        down=down,
        across=across,
        box=box,
        twice=twice,
        columns=columns,
        channel_tiles=channel_tiles,
        stored=math.ceil(columns / _STORED) * _STORED,
        chunk=columns,
        patch=(planes, rows, elements),
        pitch=pitch,
        # Channels that as many pieces in a row may have terms of, where one of them is a tile's last.
        ring=(WAITING * of_patches - 2) // taps + 3,
        pieces=math.ceil(reads * taps / terms),
        last=(reads * taps - 1) % terms + 1,
        one_set=made.groups.is_one and phases_of(made) == 1 and channel_tiles == 1,
        dtype=made.dtype,
        paired=made.paired,
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
