"""When the techniques of structure.py make sense, and at which of their values.

Owns one function a technique: what is known of a problem and the other settings go in, the values worth
trying come out, none where the technique says nothing. Never changes a schedule.
"""

from __future__ import annotations

from collections.abc import Callable

from workbench.model import H100
from workbench.playbook.analysis.scan_joins import in_rows
from workbench.playbook.analysis.scan_lanes import lanes_offered
from workbench.playbook.analysis.scan_sums import few_beside
from workbench.playbook.analysis.shared_weights import worth_sharing
from workbench.playbook.ir.program import InPlaceOfCall
from workbench.playbook.kernels.convolution_tiling import BLOCKS, TILES
from workbench.playbook.kernels.few_tiling import AT_A_TIME, SPLITS, few_tiling
from workbench.playbook.kernels.lookback_kernel import MOST_OF_A_TILE, may_tile, tiles_of
from workbench.playbook.kernels.own_sums import has_few_places
from workbench.playbook.kernels.pair_tiling import tiling_of
from workbench.playbook.kernels.recurrent_tiling import UNITS, recurrent_tiling
from workbench.playbook.kernels.stacked import SMALL_PIECE, may_tell
from workbench.playbook.kernels.together_kernel import always_together, fits_together
from workbench.playbook.kernels.together_rows import any_in_turns
from workbench.playbook.schedules.fitting import (
    FEW_COLUMNS,
    FEWER_COLUMNS,
    RowShape,
    by_length,
    clustered_part,
    kept_part,
    lie_abreast,
    longest_whole_row,
    team_for,
)
from workbench.playbook.schedules.schedule import (
    MOST_IN_BUNDLE,
    SHORT_ROW,
    Cache,
    Schedule,
    fit_threads,
    pieces_of,
    schedule_of,
    split_team,
)
from workbench.playbook.techniques.technique import Settings
from workbench.playbook.techniques.traits import Outline, RowTraits, Traits, scanned_by_lanes


def fusion(traits: Outline, settings: Settings) -> tuple[str, ...]:
    return ("all", "none") if traits.naive_kernels > traits.kernels else ("all",)


def _lines(traits: Traits, settings: Settings) -> int:
    """Kernels that walk along a line of indices, neither in tiles nor down planes or in strips."""
    turned = traits.turned if settings.get("turned_tile", "off") != "off" else 0
    beside = _beside(traits, settings)
    walks = traits.walks - beside if settings.get("walk_down", "off") != "off" else 0
    strips = traits.strips if settings.get("strip", "off") != "off" else walks
    strips += in_place_of_calls(traits, settings)
    along = traits.flat_kernels + len(traits.scatters)
    along -= traits.recurrences if settings.get("rolled_steps", "off") != "off" else 0
    return max(0, along - turned - strips - beside - _here(traits, settings) - _staged(traits, settings))


def in_place_of_calls(traits: Traits, settings: Settings) -> int:
    """Kernels whose work is done by those that make a convolution, or a product of matrices."""
    convolutions = () if settings.get("convolution", "library") == "library" else traits.convolutions
    products = () if settings.get("matrix_product", "library") == "library" else traits.products
    made: list[InPlaceOfCall] = [*convolutions, *products]
    pooled = traits.pooled if settings.get("convolution") == "patches" else 0
    return pooled + sum(all(store.buffer != one.buffer for store in one.stores) for one in made)


def _beside(traits: Traits, settings: Settings) -> int:
    """Kernels whose threads walk down planes that lie side by side."""
    return traits.beside if settings.get("walk_down", "off") != "off" else 0


def _staged(traits: Traits, settings: Settings) -> int:
    """Kernels that make rows of results in shared memory."""
    return _able_to_stage(traits, settings) if settings.get("staged_rows") == "on" else 0


def _able_to_stage(traits: Traits, settings: Settings) -> int:
    return traits.staged[settings.get("axis_a_thread") == "on"]


def _here(traits: Traits, settings: Settings) -> int:
    """Kernels that are one with another, which sees what they make through windows; and those others."""
    return 2 * traits.windowed if settings.get("window_parts") == "shared" else 0


def scan_lanes(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Where rows of running totals are short enough for a warp at every declared shape."""
    lanes = lanes_offered(traits.by_lanes, traits.declared_cases)
    return ("fit", "block", *lanes) if lanes else ()


def scan_by(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Where rows lie side by side; in pieces where some row has more columns than a small one."""
    stacked = [scan for scan in traits.scans if not in_rows(scan)]
    if not stacked:
        return ()
    long = [scan for scan in stacked if may_tell(scan)]
    lengths = [scan.columns.at(case) for scan in long for case in traits.declared_cases]
    return ("thread", "bundle", *(("pieces",) if max(lengths, default=0) > SMALL_PIECE else ()))


def widths(traits: Traits, settings: Settings) -> tuple[str, ...]:
    stacked = settings.get("scan_by", "thread") != "thread"
    scans = any(stacked or in_rows(scan) for scan in traits.scans)
    along = any(row.shape.neighbours for row in traits.kinds_of_rows) or scans
    abreast = settings.get("threads_per_row") == "bundle" and settings["fusion"] == "all"
    beside = any(row.bundles or (abreast and row.shape.beside) for row in traits.kinds_of_rows)
    lines = _lines(traits, settings) or _here(traits, settings) or _beside(traits, settings) or traits.stepped
    lines = lines or (traits.loops_in_vectors and settings.get("rolled_steps", "off") != "off")
    wide = schedule_of(tuple(settings.items())).pair_tile and any(
        one.loads for pairs in traits.pairs for one in pairs.operands
    )
    if wide and not (lines or along or beside):
        return ("1", "2", "4")
    along = along or _meet_few(traits, settings)
    weighed = settings.get("shared_weights") == "on" or settings.get("row_sums", "apart") != "apart"
    if not (lines or along or beside or weighed):
        return ()
    found = ("1", "2", "4", "8", "16")
    return found[: {1: 5, 2: 4}.get(traits.narrowest_bytes, 3)]


def teams(traits: Traits, settings: Settings) -> tuple[str, ...]:
    rows = [row.shape for row in traits.kinds_of_rows if row.shape.neighbours and not row.shape.rows.is_one]
    beside = settings.get("fusion") != "none" and any(lie_abreast(row.shape) for row in traits.kinds_of_rows)
    if not rows:
        return ("thread", "bundle") if beside else ()
    lengths = [row.columns.at(case) for row in rows for case in traits.declared_cases]
    longest = max(lengths)
    values = ["block"]
    if min(lengths) <= SHORT_ROW < longest:
        values.append("fit")
    if longest <= 8192:
        values.append("warp")
    if longest <= FEW_COLUMNS:
        values.append("thread")
    shortest = min(max(row.columns.at(case) for case in traits.declared_cases) for row in rows)
    values += ["eight"] if shortest <= FEW_COLUMNS else []
    values += ["four"] if shortest <= FEWER_COLUMNS else []
    return (*values, "bundle") if beside else tuple(values)


def rows_a_warp(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Where warps compute short rows, beside longer ones too."""
    if settings.get("threads_per_row") not in ("warp", "fit") or settings["fusion"] == "none":
        return ()
    rows = [row.shape for row in traits.kinds_of_rows if row.shape.neighbours and not row.shape.rows.is_one]
    lengths = [row.columns.at(case) for row in rows for case in traits.declared_cases]
    return ("1", "2") if min(lengths, default=SHORT_ROW) <= SHORT_ROW // 2 else ()


def caches(traits: Traits, settings: Settings) -> tuple[str, ...]:
    kept = [row.shape for row in traits.kinds_of_rows if row.shape.kept]
    if settings["fusion"] == "none" or not kept:
        return ()
    plain = schedule_of(tuple(settings.items()))
    values = ["reread"]
    choices: tuple[Cache, ...] = ("registers", "shared")
    for cache in choices:
        wanted = plain.but(cache=cache)
        if any(_uses(traits, wanted, row) for row in kept):
            values.append(cache)
    return tuple(values)


def _uses(traits: Traits, wanted: Schedule, row: RowShape) -> bool:
    """True when a kernel can keep its rows where the schedule wants them, and has rows to keep."""
    if kept_part(wanted, row, traits.all_cases) is not None:
        return True
    fits = [fit for fit in by_length(wanted, row, traits.all_cases) if fit is not None]
    whole = [fit for fit in fits if longest_whole_row(fit, row, traits.all_cases) > 0]
    return any(fit.cache == wanted.cache for fit in whole)


def single_pass(traits: Traits, settings: Settings) -> tuple[str, ...]:
    schedule = schedule_of(tuple(settings.items()))
    scans = traits.summed if settings.get("row_sums", "apart") != "apart" else ()
    scans += traits.by_lanes if scanned_by_lanes(settings) else ()
    if any(scan.before is not None and len(scan.before.stores) > 1 for scan in scans):
        return ("off", "on")
    saves = any(
        row.joint_passes < row.passes and _reads_again(traits, schedule, row) for row in traits.kinds_of_rows
    )
    if all(always_together(schedule, row.joint, traits.declared_cases) for row in traits.kinds_of_rows):
        return ()  # blocks that wait for one another do it once
    return ("off", "on") if saves and settings["fusion"] == "all" else ()


def _reads_again(traits: Traits, schedule: Schedule, row: RowTraits) -> bool:
    """True when some rows go through memory in every pass: those that do not wait on the chip."""
    if schedule.split or schedule.cache == "reread" or not row.joint.kept:
        return True
    fits = [fit for fit in by_length(schedule, row.shape, traits.all_cases) if fit is not None]
    return any(fit.cache == "reread" for fit in fits)


def split(traits: Traits, settings: Settings) -> tuple[str, ...]:
    if settings["fusion"] == "none":
        return ()
    schedule = schedule_of(tuple(settings.items())).but(split=True)
    if schedule.share_weights:
        counts = [
            one.pieces(schedule, H100, case) for one in traits.weighed for case in traits.declared_cases
        ]
        if max(counts, default=1) > 1:
            return ("off", "on")
    for row in (row.shape for row in traits.kinds_of_rows):
        own = schedule.but(team=team_for(schedule, row))
        for case in traits.declared_cases:
            if pieces_of(own, H100, row.rows.at(case), row.columns.at(case)) > 1:
                return ("off", "on")
    return ()


def split_join(traits: Traits, settings: Settings) -> tuple[str, ...]:
    if settings.get("grid_split") != "on":
        return ()
    values = ["launch"]
    ending = [row for row in traits.kinds_of_rows if row.ends_joining]
    if ending:
        values.append("last")
    if ending and all(row.joint_passes == 1 for row in ending) and _shared_by_blocks(traits, settings):
        values.append("told")
    schedule = schedule_of(tuple(settings.items())).but(join_grid=True)
    if any(
        not r.ends_joining and fits_together(schedule, r.joint, traits.declared_cases)
        for r in traits.kinds_of_rows
    ):
        values += ["grid", "words"]
    elif _take_turns(traits, schedule):
        values.append("grid")
    return tuple(values) if len(values) > 1 else ()


def _shared_by_blocks(traits: Traits, settings: Settings) -> bool:
    """True where some declared row is long and has few beside it: one block hears what the others tell."""
    schedule = schedule_of(tuple(settings.items())).but(join_last=True, join_told=True)
    if split_team(schedule) != "block":
        return False
    sizes = [
        (row.shape.rows.at(case), row.shape.columns.at(case))
        for row in traits.kinds_of_rows
        for case in traits.declared_cases
        if row.ends_joining
    ]
    return any(pieces_of(schedule, H100, rows, columns) > 1 for rows, columns in sizes)


def _take_turns(traits: Traits, schedule: Schedule) -> bool:
    """True where blocks that meet can take rows in turns, which is for prefetch to choose."""
    ahead = schedule.but(prefetch=True)
    return any(
        any_in_turns(ahead, H100, row.joint, row.bytes_in_turns, traits.declared_cases)
        for row in traits.kinds_of_rows
    )


def columns_by(traits: Traits, settings: Settings) -> tuple[str, ...]:
    if settings.get("grid_split") != "on" or not any(row.bundles for row in traits.kinds_of_rows):
        return ()
    schedule = schedule_of(tuple(settings.items()))
    able = 32 * schedule.width <= schedule.threads <= MOST_IN_BUNDLE // schedule.width
    return ("thread", "bundle") if able else ("thread",)


def launches(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Kernels that follow one another, whose blocks know nothing of their launch."""
    schedule = schedule_of(tuple(settings.items()))
    alone = traits.stages < 1 or not schedule.fuse
    bound = schedule.persistent or schedule.fit or schedule.cluster > 1 or schedule.cache != "reread"
    bound = bound or schedule.join_told or schedule.windows_here
    bound = bound or schedule.staged or schedule.share_weights or schedule.tables or schedule.row_sums != ""
    if alone or bound or schedule.team_fit or schedule.tile or schedule.pair_tile:
        return ()
    if _meet_few(traits, settings):
        return ()
    apart = traits.library_calls or traits.scans
    together = ("together",) if traits.stages > 1 and not apart else ()
    by_row = schedule.team == "block" or traits.kernels == 2
    turns = ("turns",) if traits.in_planes and schedule.bundle and by_row else ()
    beside = ("beside",) if traits.stages < traits.sharing else ()
    return ("apart", *beside, *together, *turns) if beside or together or turns else ()


def any_kernel(*values: str) -> Callable[[Traits, Settings], tuple[str, ...]]:
    """Where some kernel is none of those that are made in place of a library's call."""
    return lambda traits, settings: values if traits.kernels > in_place_of_calls(traits, settings) else ()


def persistent(traits: Traits, settings: Settings) -> tuple[str, ...]:
    return ("off", "on") if _lines(traits, settings) or traits.kinds_of_rows else ()


def look_back(traits: Traits, settings: Settings) -> tuple[str, ...]:
    schedule = schedule_of(tuple(settings.items()))
    for scan in filter(may_tile, traits.scans):
        for case in traits.declared_cases:
            if tiles_of(schedule, H100, scan.rows, scan.columns, case) > 1:
                return ("off", "on")
    return ()


def scatter_by(traits: Traits, settings: Settings) -> tuple[str, ...]:
    few = [scatter for scatter in traits.scatters if has_few_places(scatter, traits.declared_cases)]
    return ("memory", "block") if few and settings["fusion"] == "all" else ()


def scan_tile(traits: Traits, settings: Settings) -> tuple[str, ...]:
    if settings.get("look_back") != "on" and settings.get("scan_by", "thread") == "thread":
        return ()
    schedule = schedule_of(tuple(settings.items()))
    most = MOST_OF_A_TILE // schedule.threads // schedule.width
    return tuple(parts for parts in ("4", "8", "16") if int(parts) <= max(most, 4))


def blocks(traits: Traits, settings: Settings) -> tuple[str, ...]:
    fixed = ("256", "64", "128", "512", "1024")
    schedule = schedule_of(tuple(settings.items()))
    by_threads = schedule.convolve[0] or schedule.places_down
    if not (traits.kernels or traits.scans or by_threads):
        return ()
    fits = {
        fit_threads(row.shape.columns.at(case), row.shape.rows.at(case))
        for row in traits.kinds_of_rows
        for case in traits.declared_cases
        if team_for(schedule, row.shape) == "block"
    }
    if schedule.places_down:
        return traits.in_place.patches
    if traits.stepped:
        room = {threads for threads, warps in traits.step_teams if warps == schedule.step_by_warps}
        return tuple(threads for threads in fixed if int(threads) in room)
    if schedule.convolve[0] and not schedule.convolve_each:
        tile = settings["convolution"]
        return tuple(threads for threads in BLOCKS if (tile, threads) in traits.in_place.tiles)
    if schedule.pair_tile:
        tiled = [pairs for pairs in traits.pairs if tiling_of(pairs, schedule.pair_tile, 256)]
        return tuple(
            threads
            for threads in fixed
            if all(tiling_of(pairs, schedule.pair_tile, int(threads)) for pairs in tiled)
        )
    if _meet_few(traits, settings):
        return fixed[:4]
    return (*fixed, "fit") if fits - {256} else fixed


def fast_math(traits: Traits, settings: Settings) -> tuple[str, ...]:
    return ("off", "on") if traits.slow_math else ()


def turned(traits: Traits, settings: Settings) -> tuple[str, ...]:
    return ("off", "32", "64") if traits.turned and settings["fusion"] == "all" else ()


def pair_tile(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Tiles that a block of 256 threads has room for; a value a row is asked for by nobody else then."""
    fits = [str(tile) for tile in (32, 64, 128) if any(tiling_of(pairs, tile, 256) for pairs in traits.pairs)]
    return ("off", *fits) if fits and settings["fusion"] == "all" else ()


def few_rows(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Where few rows meet many, and so many of these at a time as a thread has room for."""
    cases = traits.declared_cases
    fits = [
        str(rows)
        for rows in AT_A_TIME
        if any(few_tiling(few, Schedule(few_rows=rows), cases) is not None for few in traits.few)
    ]
    return (*fits, "off") if fits and settings["fusion"] == "all" else ()


def _meet_few(traits: Traits, settings: Settings) -> bool:
    """True where a kernel reads many rows once for all of a few."""
    return bool(traits.few) and settings.get("few_rows", "off") != "off"


def few_split(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Blocks that share the columns, where each still has some."""
    if not _meet_few(traits, settings):
        return ()
    columns = [few.pairs.columns.at(case) for few in traits.few for case in traits.declared_cases]
    return tuple(str(split) for split in SPLITS if split == 1 or max(columns) >= 256 * split)


def convolution(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Tiles for which a block of one size or another has room, and what tensor cores can make."""
    able = traits.in_place
    values = [tile for tile in TILES if any((tile, threads) in able.tiles for threads in BLOCKS)]
    values += ["three_tf32"] if able.are_products else []
    values += ["patches"] if able.patches else []
    values += ["each"] if able.differ else []
    return ("library", *values) if values and settings["fusion"] == "all" else ()


def channel_pairs(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Where tiles of patches have room for channels in pairs."""
    return ("off", "on") if settings.get("convolution") == "patches" and traits.in_place.are_paired else ()


def matrix_product(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Where matrices are large enough for tiles."""
    if not traits.products or settings["fusion"] != "all":
        return ()
    several = len(traits.products) + len(traits.convolutions) > 1
    return ("library", "three_tf32", *(("each",) if several else ()))


def split_k(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Where products on tensor cores have few tiles, of many terms."""
    shared = []
    if settings.get("matrix_product") in ("three_tf32", "each"):
        shared.append(traits.in_place.shared_products)
    if settings.get("convolution") in ("three_tf32", "each"):
        shared.append(traits.in_place.shared_convolutions)
    found = frozenset[int]().union(*(one.splits for one in shared))
    own = frozenset[int]().union(*(one.own for one in shared))
    if len(found) < 2:
        return ()
    return (*map(str, sorted(found)), *(("each",) if len(own) > 1 else ()))


def row_sums(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Where rows of running totals are reduced to few results each."""
    cases = traits.declared_cases
    able = traits.summed and all(few_beside(scan, cases) for scan in traits.summed)
    return ("apart", "warp", "block") if able and settings["fusion"] == "all" else ()


def shared_weights(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Where neighbouring rows share weights, and nobody else's launch has them."""
    able = any(worth_sharing(one, traits.declared_cases) for one in traits.weighed)
    return ("off", "on") if able and settings["fusion"] == "all" else ()


def row_tables(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Where columns of rows that lie side by side are made of few elements."""
    tabled = any(row.tabled for row in traits.kinds_of_rows)
    return ("off", "on") if tabled and settings["fusion"] == "all" else ()


def walk_down(traits: Traits, settings: Settings) -> tuple[str, ...]:
    return ("off", "1", "2", "4", "8") if traits.walks and settings["fusion"] == "all" else ()


def walk_rows(traits: Traits, settings: Settings) -> tuple[str, ...]:
    return ("32", "8", "16", "64", "128") if settings.get("walk_down", "off") != "off" else ()


def strip(traits: Traits, settings: Settings) -> tuple[str, ...]:
    walks = traits.walks - traits.beside if settings.get("walk_down", "off") != "off" else 0
    left = traits.strips - walks
    return ("off", "2", "4", "8", "16") if left and settings["fusion"] == "all" else ()


def rolled_steps(traits: Traits, settings: Settings) -> tuple[str, ...]:
    return ("off", "8", "16", "32") if traits.recurrences and settings["fusion"] == "all" else ()


def recurrent_layers(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Where a warp's units, so many of them, have room for their sums."""
    if not traits.recurrent or settings["fusion"] != "all":
        return ()
    cases = traits.declared_cases
    able = [
        units
        for units in UNITS
        if any(recurrent_tiling(made, units, cases) is not None for made in traits.recurrent)
    ]
    return ("off", *map(str, able)) if able else ()


def axis_a_thread(traits: Traits, settings: Settings) -> tuple[str, ...]:
    taken = any(settings.get(name, "off") != "off" for name in ("turned_tile", "walk_down", "strip"))
    return ("off", "on") if traits.apart and not taken and settings["fusion"] == "all" else ()


def staged_rows(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Where rows of results are made in parts, be they an element of a row each or all of a short axis."""
    return ("off", "on") if _able_to_stage(traits, settings) and settings["fusion"] == "all" else ()


def window_parts(traits: Traits, settings: Settings) -> tuple[str, ...]:
    return ("memory", "shared") if traits.windowed and settings["fusion"] == "all" else ()


def steps_by(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Where a warp's rows have room beside those of others."""
    teams = {warps for _, warps in traits.step_teams}
    return ("block", "warp") if traits.stepped and len(teams) > 1 else ()


def in_flight(traits: Traits, settings: Settings) -> tuple[str, ...]:
    walks = traits.walks and settings.get("walk_down", "off") != "off"
    rows = traits.kinds_of_rows and settings.get("row_cache", "reread") != "registers"
    loops = _lines(traits, settings) or walks or rows or settings.get("shared_weights") == "on"
    many = ("8", "16") if traits.repeated and _lines(traits, settings) else ()
    return ("1", "2", "4", *many) if loops or _meet_few(traits, settings) else ()


def prefetch(traits: Traits, settings: Settings) -> tuple[str, ...]:
    schedule = schedule_of(tuple(settings.items())).but(prefetch=True)
    if _take_turns(traits, schedule):
        return ("off", "on")
    if schedule.cache != "registers":
        return ()
    parts = [clustered_part(schedule, row.shape, traits.all_cases) for row in traits.kinds_of_rows]
    if any(part is not None and part.shared.prefetch for part in parts):
        return ("off", "on")
    fits = [
        fit
        for row in traits.kinds_of_rows
        for fit in (
            *by_length(schedule, row.shape, traits.all_cases),
            (kept_part(schedule, row.shape, traits.all_cases) or (None,))[0],
        )
        if fit is not None and not row.shape.rows.is_one
    ]
    return ("off", "on") if any(fit.prefetch for fit in fits) else ()


def cluster(traits: Traits, settings: Settings) -> tuple[str, ...]:
    values = ["1"]
    for blocks in (4, 8, 16):
        schedule = schedule_of(tuple(settings.items())).but(cluster=blocks)
        if any(clustered_part(schedule, row.shape, traits.all_cases) for row in traits.kinds_of_rows):
            values.append(str(blocks))
    return tuple(values) if len(values) > 1 else ()


def row_totals(traits: Traits, settings: Settings) -> tuple[str, ...]:
    """Not where blocks share a row, rows a block, or kernels a launch: these have ways of their own."""
    if not traits.row_totals or settings["fusion"] == "none" or settings.get("pair_tile", "off") != "off":
        return ()
    plain = (("grid_split", "off"), ("cluster", "1"), ("launches", "apart"))
    alone = all(settings.get(name, value) == value for name, value in plain)
    one_a_row = settings.get("threads_per_row") != "bundle" and settings.get("row_tables", "off") == "off"
    return ("launch", "last", "told") if alone and one_a_row else ("launch",)


def block_reduction(traits: Traits, settings: Settings) -> tuple[str, ...]:
    schedule = schedule_of(tuple(settings.items()))
    blocks = any(team_for(schedule, row.shape) == "block" for row in traits.kinds_of_rows)
    return ("shuffle", "tree") if blocks else ()
