"""A technique vector with every choice spelled out.

Owns the meaning of the values; structure.py and fine_tuning.py own their names and prose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from workbench.model import H100, Target, Vector
from workbench.playbook.graph.rewrites import ONLY_FUSED, REWRITES

Team = Literal["thread", "warp", "block", "bundle"]
Cache = Literal["registers", "shared", "reread"]
Launches = Literal["apart", "beside", "together", "turns"]
ScanBy = Literal["thread", "bundle", "pieces"]
RowSums = Literal["", "warp", "block"]
EACH = 0
"""Blocks to a tile, as a number: each product of a plan has as many as suits it."""


@dataclass(frozen=True)
class Schedule:
    """How kernels are laid out; the defaults are the plain choices."""

    fuse: bool = True
    without: frozenset[str] = frozenset()
    """Algebraic rewrites that are not to be made."""
    width: int = 1
    """Elements a thread moves with one instruction."""
    team: Team = "block"
    """Who computes a row."""
    lanes: int = 32
    """Of a warp, that share a row where a warp computes it: fewer for several rows a warp."""
    team_fit: bool = False
    """The plan gives short rows a warp and long rows a block."""
    threads: int = 256
    """Threads a block."""
    fit: bool = False
    """The plan chooses the threads of a block from the length of its row; ``threads`` is for the rest."""
    cache: Cache = "reread"
    """Where a row waits between passes."""
    single_pass: bool = False
    split: bool = False
    """Several blocks a row, joined by a further launch."""
    bundle: bool = False
    """Columns of a matrix: a block has a bundle of neighbours, where rows are split."""
    bundle_lanes: int = 0
    """Threads side by side that a bundle has; 0 for as many as its rows ask for."""
    join_last: bool = False
    """The block of a row that is done last joins them instead, where nothing is left to do but that."""
    join_grid: bool = False
    """All blocks wait for all, where the row is needed again: they keep their pieces meanwhile."""
    join_words: bool = False
    """Then, for words that carry their parts, instead of a barrier of the whole grid."""
    join_told: bool = False
    """Then, the last block of a row hears the others' parts in words, where only joining is left to do."""
    join_rows: bool = False
    """What all rows come to is reduced in the launch that computes them, by the block that is done last."""
    rows_told: bool = False
    """Then, by the last block of the grid, which hears the parts of the others in words."""
    stream: bool = False
    fast_math: bool = False
    items: int = 1
    """Vectors a thread has in flight."""
    persistent: bool = False
    cluster: int = 1
    """Blocks that share a row too long for one of them."""
    prefetch: bool = False
    """The next row is copied to shared memory while a block computes the present one from registers."""
    tree: bool = False
    """Block reductions through a tree in shared memory instead of shuffles."""
    look_back: bool = False
    """Few long rows are scanned by many blocks a row."""
    parts: int = 4
    """Vectors that a thread has of a tile then."""
    scan_lanes: str = "fit"
    """Lanes that scan a row of neighbours, a ``block``, or as many as fit the row."""
    scan_by: ScanBy = "thread"
    """Who scans rows that lie side by side: a thread each, a block for a bundle of them, or one for each
    piece of a bundle."""
    chains: bool = False
    """An accumulator for each element of a vector, joined after the loop."""
    reciprocal: bool = False
    """Divisions by a value a row become products with its reciprocal."""
    promised: int = 0
    """Threads that the compiler must leave room for on a multiprocessor; 0 for no promise."""
    narrow: bool = False
    """Indices of kernels without rows have 32 bits."""
    tile: int = 0
    """Edge of the tiles in which inputs that lie across the result are turned; 0 for none."""
    pair_tile: int = 0
    """Edge of the tiles of results that are pairs of rows, whose rows a block brings in; 0 for none."""
    few_rows: int = 0
    """Of many rows, each of which meets the same few: how many a warp has at a time; 0 for no such kernel."""
    few_split: int = 1
    """Blocks of a cluster that share their columns."""
    convolve: tuple[int, int] = (0, 0)
    """Channels, and places one below the other, of a thread, of a convolution; zeros for the library's."""
    convolve_as_product: bool = False
    """A convolution is a product of matrices on tensor cores, of three TF32 products each."""
    places_down: bool = False
    """Places are the rows of such a product, and channels, which are few, the columns."""
    convolve_each: bool = False
    """Each convolution is made as suits it: by the library, or in one of these ways."""
    channel_pairs: bool = False
    """Two channels of a patch of 16-bit numbers lie side by side in shared memory."""
    multiply: bool = False
    """Products of float32 matrices are made by a kernel on tensor cores, of three TF32 products each."""
    multiply_each: bool = False
    """Each product is made as suits it: by the library, or so."""
    split_k: int = 1
    """Blocks that share the terms of a tile of such a product; ``EACH`` (0) for what suits each product."""
    recurrent_units: int = 0
    """Units of a warp, where a kernel goes through recurrent layers step by step; 0 for the library."""
    strip: int = 0
    """Results one below the other that a thread has where windows overlap; 0 where each has a thread."""
    side: int = 0
    """Results side by side of a thread that walks down its plane, where windows overlap; 0 for no walk."""
    down: int = 32
    """Rows of results that it makes, at most."""
    windows_here: bool = False
    """What windows along rows share is made in shared memory, in the launch that looks through them."""
    step_by_warps: bool = False
    """Rows that go through several steps on the chip are a warp's own, which waits for no other."""
    early: bool = False
    """Loads of later passes are asked for before the first reduction."""
    stream_stores: bool = False
    """Results are written as streaming, whatever the loads are."""
    lines: int = 0
    """Lines of a plane that a thread is at the same place of; 0 where elements are apart."""
    rolled: int = 0
    """Steps of a recurrence whose loads are on their way together, in a loop; 0 for all steps written out."""
    apart: bool = False
    """A thread has all elements of an axis of few, where a kernel has no rows."""
    staged: bool = False
    """Rows of results that are made in parts wait in shared memory until they are whole."""
    backwards: bool = False
    """Elements that a launch before has read are gone through from the last to the first."""
    row_sums: RowSums = ""
    """Who walks rows once for several sums, of running totals too; empty where each has its own thread."""
    tables: bool = False
    """A thread reads what its row's columns are made of once, where that is few elements of many columns."""
    share_weights: bool = False
    """What a column asks of neighbouring rows alike is made by one lane and handed round."""
    own_sums: bool = False
    """Blocks add up values of few places in shared memory first."""
    launches: Launches = "apart"
    """What kernels that follow one another have in common."""

    def but(self, **changes: object) -> Schedule:
        """With other values: ``dataclasses.replace`` in a tenth of the time. Seeds take thousands."""
        if unknown := changes.keys() - self.__dict__.keys():
            raise TypeError(f"a schedule has no {', '.join(sorted(unknown))}")
        changed = object.__new__(Schedule)
        changed.__dict__.update(self.__dict__, **changes)
        return changed


SHORT_ROW = 1024
"""Columns up to which a warp computes a row, where the team is fitted to the row."""
ALWAYS_SPLIT = 64
"""A constant number of rows up to which a split needs no plain kernel beside it."""
LEAST_PIECE: Mapping[str, int] = {"block": 1024, "thread": 64}
"""Columns that are worth a piece of their own, by team."""
LONG_PIECE, MOST_LONG, FEW_WAVES = 2**17, 32, 4
"""Columns that a block walks alone at most where rows fill the card but a few times over, and the most pieces
that come of it: the last rows would leave most of the card idle. A group norm of 896 rows of 2,097,152 takes
8144 us on an H100 with a block a row and 7514 in torch.compile; the bytes alone 7440. One row has a few waves
of pieces where they are so long: one of 1,879,048,192 takes 8752 us in 528 pieces, 7420 in torch.compile."""
_WHOLE = 32
"""Columns a thread up to which one block takes a row by itself: the second launch of a split costs more.
Softmax of 16 rows of 16384 takes 9.8 us split on an H100, and 7.3 us in eager's one launch that is not."""


def pieces_of(schedule: Schedule, target: Target, rows: int, columns: int) -> int:
    """Blocks that share a row when rows are split, as the plan computes it; 1 where rows are many."""
    if not schedule.split or columns <= split_from(schedule):
        return 1
    team = split_team(schedule)
    threads = split_threads(schedule)
    if schedule.join_told and team == "block":
        steps = -(-columns // told_piece(schedule))
        most = min(MOST_TOLD // max(rows, 1), most_told(threads))
        return 1 if rows >= target.sm_count else max(1, min(most, steps))
    bundled = schedule.bundle and team == "thread"
    together = bundle_of(rows, schedule.width, schedule.bundle_lanes) if bundled else threads
    fill = target.sm_count * (target.threads_per_sm // (2 * threads))
    blocks = rows if team == "block" else -(-rows // together)
    share = fill // max(blocks, 1) if schedule.bundle or schedule.join_grid else -(-fill // max(blocks, 1))
    if team == "block" and not schedule.join_grid and rows < FEW_WAVES * fill:
        most = FEW_WAVES * fill if rows == 1 else MOST_LONG
        share = max(share, min(most, columns // LONG_PIECE))
    return max(1, min(share, -(-columns // LEAST_PIECE[team])))


def in_bundles(schedule: Schedule, rows: int, columns: int) -> bool:
    """True where a block has a bundle of long columns, be it alone or with others: its last block joins them.

    A thread a column reads element by element, and 24,576 columns are 48 blocks of 512 threads, for as many
    multiprocessors: channels of 32 images of 28 x 28, 768 channels last, are summed up in half of 104 us on
    an H100 then, where 77 MB take 26.
    """
    if not (schedule.split and schedule.bundle and schedule.join_last) or split_team(schedule) != "thread":
        return False
    bundles = -(-rows // bundle_of(rows, schedule.width, schedule.bundle_lanes))
    return columns > split_from(schedule) and bundles <= MOST_TEAMS


MOST_TEAMS = 4096
"""Counters of arrivals that a kernel has: rows, or bundles of columns, that blocks share."""


def told_piece(schedule: Schedule) -> int:
    """Columns of a block that tells its part in a word: one step of its walk, and then it ends."""
    return max(LEAST_PIECE["block"], split_threads(schedule) * schedule.width * schedule.items)


MOST_TOLD = 4096
"""Parts that one kernel has words for. One block hears them all: written by hand, a mean squared error over
134 MB took 35.8 to 36.9 us on an H200 with so many, by the size of its blocks; with twice as many, 36.8 to
37.3."""


def most_told(threads: int) -> int:
    """Parts that a block of so many threads hears: a few each, or the last part is not what it waits for."""
    return min(MOST_TOLD, _TOLD_A_THREAD * threads)


_TOLD_A_THREAD = 16
"""A guess: 64 threads that join thousands of parts take longer for it than for their rows."""


def split_threads(schedule: Schedule) -> int:
    """Threads of a block that has a piece of a row; a fitted one is larger where all blocks meet."""
    if not schedule.fit:
        return schedule.threads
    return _MEETING if schedule.join_grid else Schedule.threads


_MEETING = 512
"""Threads of a fitted block where all blocks meet: softmax of one row of 1,048,576 on an H100 takes 8.6 us
with 256, 8.0 with 512, 8.8 with 1024."""
RESIDENT = 1024
"""Threads that a multiprocessor has room for when blocks share rows: half of what it could hold."""
MOST_IN_BUNDLE = 2048
"""Partial results that a block's groups join through shared memory: threads times the vector width."""
_LANES_OF_BUNDLE = (8, 32)
"""Threads side by side, least and most: a line of memory of 128 bytes has 32 elements."""


def width_over(width: int, *lengths: int) -> int:
    """Elements of a vector that lines of these lengths divide into: so many, half of them, or 1."""
    halves = (width, width // 2)
    return next((one for one in halves if one and not any(length % one for length in lengths)), 1)


def bundle_of(rows: int, width: int, lanes: int = 0) -> int:
    """Results that a block computes together where each is a column of a matrix; ``lanes`` as asked for."""
    width = width if rows % width == 0 else 1
    if lanes:
        return lanes * width
    least, most = (lanes * width for lanes in _LANES_OF_BUNDLE)
    return min(most, max(least, 1 << max(rows - 1, 0).bit_length()))


def bundle_text(rows: str, lanes: int = 0) -> str:
    """The same in the plan language; ``{width}`` stands for the vector width."""
    if lanes:
        return f"{lanes} * {{width}}"
    least, most = (f"{lanes} * {{width}}" for lanes in _LANES_OF_BUNDLE)
    return f"min({most}, max({least}, next_pow2({rows})))"


def split_from(schedule: Schedule) -> int:
    """Columns beyond which a row is worth several teams."""
    if split_team(schedule) == "thread":
        return LEAST_PIECE["thread"]
    return _WHOLE * (MOST_FITTED if schedule.fit else schedule.threads)


MOST_FITTED = 1024
"""Threads of the largest block that is fitted to a row."""
_FIT_LEAST = 128
_MANY_COLUMNS, _FEW_COLUMNS = 16, 4
_LANES: Mapping[str, int] = {"eight": 8, "four": 4}
"""Of a warp, those that compute a row, where several rows share it."""
"""Columns a thread, where rows fill the card and where they do not. On an H100 a layer norm of one row of
4096 takes 3.4 us with 256 threads and 3.1 us with 1024; 4096 rows take 46 us and 62 us."""
_FULL = 2
"""Rows a multiprocessor from which rows fill the card."""


def fit_threads(columns: int, rows: int = 2**31, target: Target = H100) -> int:
    """Threads for a row when the block is fitted to it: few rows spread over more of them."""
    wanted = -(-columns // (_MANY_COLUMNS if rows >= _FULL * target.sm_count else _FEW_COLUMNS))
    return min(MOST_FITTED, max(_FIT_LEAST, 1 << max(wanted - 1, 0).bit_length()))


def fit_text(columns: str, rows: str) -> str:
    """The same in the plan language."""
    each = f"{_MANY_COLUMNS} if {rows} >= {_FULL} * gpu.sm_count else {_FEW_COLUMNS}"
    return f"min({MOST_FITTED}, max({_FIT_LEAST}, next_pow2(cdiv({columns}, {each}))))"


def split_team(schedule: Schedule) -> Team:
    """Who computes a piece of a row: a warp would be too few."""
    return "thread" if schedule.team in ("thread", "bundle") else "block"


def _convolved(value: str) -> tuple[int, int]:
    """What a thread has of a convolution."""
    if value in ("library", "three_tf32", "patches"):
        return (0, 0)
    each, below = map(int, ("8x8" if value == "each" else value).split("x"))
    return each, below


@lru_cache(maxsize=4096)
def schedule_of(vector: Vector) -> Schedule:
    """Read a vector that table.py of the techniques has checked."""
    values = dict(vector)

    def on(name: str, default: str) -> bool:
        return values.get(name, default) == "on"

    def number(name: str) -> int:
        """A technique that is ``off`` or a number; 0 for off."""
        return int(values.get(name, "off").replace("off", "0"))

    fuse = values.get("fusion", "all") == "all"
    team: Team = "block"
    match values.get("threads_per_row"):
        case "thread" | "warp" | "bundle" as chosen:
            team = chosen
        case "eight" | "four":
            team = "warp"
    cache: Cache = "reread"
    match values.get("row_cache"):
        case "registers" | "shared" as kept:
            cache = kept
    scan_by: ScanBy = "thread"
    match values.get("scan_by"):
        case "bundle" | "pieces" as stacked:
            scan_by = stacked
    row_sums: RowSums = ""
    match values.get("row_sums"):
        case "warp" | "block" as here:
            row_sums = here
    launches: Launches = "apart"
    match values.get("launches"):
        case "beside" | "together" | "turns" as shared:
            launches = shared
    return Schedule(
        fuse=fuse,
        without=frozenset(name for name in REWRITES if not on(name, "on"))
        | (frozenset() if fuse else ONLY_FUSED),
        width=int(values.get("vector_width", "1")),
        team=team,
        lanes=_LANES.get(values.get("threads_per_row", ""), 32 // int(values.get("rows_a_warp", "1"))),
        team_fit=values.get("threads_per_row") == "fit",
        threads=256 if values.get("block_size") == "fit" else int(values.get("block_size", "256")),
        fit=values.get("block_size") == "fit",
        cache=cache,
        single_pass=on("single_pass", "off") or values.get("split_join") == "told",
        split=on("grid_split", "off"),
        bundle=values.get("columns_by") == "bundle",
        bundle_lanes=int(values.get("bundle_lanes", "most").replace("most", "0")),
        join_last=values.get("split_join") in ("last", "told", "grid", "words"),
        join_grid=values.get("split_join") in ("grid", "words"),
        join_words=values.get("split_join") == "words",
        join_told=values.get("split_join") == "told",
        join_rows=values.get("row_totals") in ("last", "told"),
        rows_told=values.get("row_totals") == "told",
        stream=on("stream_hints", "off"),
        fast_math=on("fast_math", "off"),
        items=int(values.get("loads_in_flight", "1")),
        persistent=on("persistent_grid", "off"),
        cluster=int(values.get("cluster", "1")),
        prefetch=on("prefetch", "off"),
        tree=values.get("block_reduction", "shuffle") == "tree",
        look_back=on("look_back", "off"),
        parts=int(values.get("scan_tile", "4")),
        scan_lanes=values.get("scan_lanes", "fit"),
        scan_by=scan_by,
        chains=values.get("chains") == "many",
        reciprocal=on("reciprocal", "off"),
        promised={"half": 1024, "full": 2048}.get(values.get("occupancy", "free"), 0),
        narrow=values.get("index_width") == "32",
        tile=number("turned_tile"),
        pair_tile=number("pair_tile"),
        few_rows=number("few_rows"),
        few_split=int(values.get("few_split", "1")),
        convolve=_convolved(values.get("convolution", "library")),
        convolve_as_product=values.get("convolution") in ("three_tf32", "patches"),
        places_down=values.get("convolution") == "patches",
        convolve_each=values.get("convolution") == "each",
        channel_pairs=on("channel_pairs", "off"),
        multiply=values.get("matrix_product") == "three_tf32",
        multiply_each=values.get("matrix_product") == "each",
        split_k=int(values.get("split_k", "1").replace("each", str(EACH))),
        recurrent_units=number("recurrent_layers"),
        strip=number("strip"),
        side=number("walk_down"),
        down=int(values.get("walk_rows", "32")),
        windows_here=values.get("window_parts") == "shared",
        step_by_warps=values.get("steps_by") == "warp",
        early=on("early_loads", "off"),
        stream_stores=values.get("stores") == "streamed",
        lines=number("lines_a_thread"),
        rolled=number("rolled_steps"),
        apart=on("axis_a_thread", "off"),
        staged=on("staged_rows", "off"),
        backwards=on("backwards", "off"),
        row_sums=row_sums,
        tables=on("row_tables", "off"),
        share_weights=on("shared_weights", "off"),
        own_sums=values.get("scatter_by") == "block",
        launches=launches,
    )
