"""A rough model of time, good enough to rank techniques before anything is compiled.

Owns what elements apart, scans and library calls ask of the multiprocessors, and how steps follow one
another. row_estimate.py does the same for rows; lifetime.py makes times of it, arithmetic.py knows what an
operation costs. The referee's model, which sees counts and registers, is the one that a card is
judged by; neither is a measurement. docs/notes/2026-11-21-model-of-time.md says how far this one is off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from workbench.model import DTYPE_BYTES, Problem, Target, Vector
from workbench.playbook.analysis import lifetime, reach
from workbench.playbook.analysis.again import found_again
from workbench.playbook.analysis.apart import apart_of
from workbench.playbook.analysis.arithmetic import instructions_of, join_ns, scanned
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.divisions import with_products
from workbench.playbook.analysis.following import Estimate, in_order
from workbench.playbook.analysis.lifetime import FLAT_NS, START_US, Walk, Work
from workbench.playbook.analysis.lines import lines_of, worth_lines
from workbench.playbook.analysis.recurrences import recurrence_of
from workbench.playbook.analysis.row_cuts import cut_of
from workbench.playbook.analysis.row_tables import with_row_tables
from workbench.playbook.analysis.row_totals import with_tails
from workbench.playbook.analysis.scan_chains import chained, read_by
from workbench.playbook.analysis.scan_joins import in_rows
from workbench.playbook.analysis.scan_lanes import lanes_of
from workbench.playbook.analysis.scan_sums import with_sums
from workbench.playbook.analysis.shared_weights import weights_at
from workbench.playbook.analysis.turning import tiled_loads, turn_of
from workbench.playbook.analysis.window_parts import in_one_launch
from workbench.playbook.estimates.convolution_estimate import convolution_time
from workbench.playbook.estimates.few_estimate import few_time
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.estimates.library_estimate import library_time
from workbench.playbook.estimates.lines_estimate import lines_time
from workbench.playbook.estimates.loop_estimate import loop_time
from workbench.playbook.estimates.pairs_estimate import pairs_time
from workbench.playbook.estimates.patches_estimate import patches_time
from workbench.playbook.estimates.product_estimate import convolution_product_time, product_time
from workbench.playbook.estimates.recurrent_estimate import recurrent_time
from workbench.playbook.estimates.row_estimate import HEARD_US, row_time
from workbench.playbook.estimates.row_tables_estimate import row_tables_time
from workbench.playbook.estimates.scan_rows_estimate import scan_rows_time
from workbench.playbook.estimates.scatter_estimate import scatter_time
from workbench.playbook.estimates.stacked_estimate import stacked_time
from workbench.playbook.estimates.staged_estimate import staged_time
from workbench.playbook.estimates.steps_estimate import steps_time
from workbench.playbook.estimates.strip_estimate import strip_time
from workbench.playbook.estimates.walk_beside_estimate import walk_beside_time
from workbench.playbook.estimates.walk_down_estimate import walk_down_time
from workbench.playbook.estimates.ways import with_kernels
from workbench.playbook.estimates.weights_estimate import each_its_own, weights_time
from workbench.playbook.estimates.whole_rows_estimate import lines_of_rows, stored_lines
from workbench.playbook.estimates.window_estimate import window_time
from workbench.playbook.files.shape_classes import class_at, classes_of
from workbench.playbook.ir.expr import Load, loads_below, unguarded
from workbench.playbook.ir.program import (
    Convolution,
    Kernel,
    LibraryCall,
    MatrixProduct,
    ProgramStep,
    RecurrentLayers,
    Scan,
    Scatter,
)
from workbench.playbook.ir.stencil import strips_of
from workbench.playbook.ir.unkeyed import Unkeyed
from workbench.playbook.kernels.beside_vectors import read_with_vectors
from workbench.playbook.kernels.copies import UNROLLED as UNROLLED_COPIES
from workbench.playbook.kernels.copies import copies_of, without
from workbench.playbook.kernels.few_tiling import few_in
from workbench.playbook.kernels.last_vector import is_partly_there
from workbench.playbook.kernels.lookback_kernel import LOOK_BACK_NS, may_tile, tiles_of
from workbench.playbook.kernels.pair_tiling import tiled_pairs
from workbench.playbook.kernels.scan_kernel import UNROLLED
from workbench.playbook.kernels.staged_rows import with_staged
from workbench.playbook.kernels.woven_planes import woven_planes
from workbench.playbook.schedules.residency import resident
from workbench.playbook.schedules.schedule import Schedule, schedule_of, width_over
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of
from workbench.playbook.text.indexing import divisors_of, is_unit, repeated_row, run_of

_TOTALS_US = 2.0  # to arrive, and to join what all blocks of a launch have left (a guess)
_LANES = 32
_JOINS = 6
"""Of a thread's total in a scan: five within its warp, and with what comes before. One more for each warp."""


def estimate(problem: Problem, vector: Vector, target: Target, sizes: Mapping[str, int]) -> Estimate:
    """Model a vector at one assignment of sizes."""
    return _estimate(problem.digest, Unkeyed(problem), vector, target, tuple(sizes.items()))


@lru_cache(maxsize=4096)
def _estimate(
    digest: str, holder: Unkeyed[Problem], vector: Vector, target: Target, at: tuple[tuple[str, int], ...]
) -> Estimate:
    problem, sizes = holder.value, dict(at)
    if classes := classes_of(problem, vector):
        taken = class_at(classes, problem, sizes)
        return estimate(taken.problem, taken.vector, target, sizes)
    return estimate_schedule(problem, schedule_of(settled(problem, vector)), target, sizes)


def estimate_schedule(
    problem: Problem, schedule: Schedule, target: Target, sizes: Mapping[str, int], as_written: bool = False
) -> Estimate:
    """Model a schedule; ``as_written`` is for old receipts: single passes stay, and no row is peeled."""
    total = in_order(estimate_steps(problem, schedule, target, sizes, as_written), schedule, target)
    return replace(total, us=total.us - target.launch_us + START_US)


def estimate_steps(
    problem: Problem, schedule: Schedule, target: Target, sizes: Mapping[str, int], as_written: bool = False
) -> list[tuple[ProgramStep, Estimate]]:
    """The steps of a schedule, and the time of each by itself, its launch included."""
    program = program_of(problem, schedule.fuse, schedule.without)
    declared: list[Mapping[str, int]] = [case.size_map for case in problem.cases]
    asked = Asked(program, schedule, target, sizes, declared or [sizes], as_written)
    steps = with_tails(program) if schedule.join_rows else program.steps
    if schedule.windows_here:
        steps = in_one_launch(program, steps)
    steps = with_sums(program, chained(program, steps, schedule), schedule, [sizes])
    if schedule.staged:
        cases = [case.size_map for case in (*problem.cases, *problem.proofs)]
        steps = with_staged(program, steps, schedule.apart, cases, len(problem.cases))
    if schedule.tables:
        steps = with_row_tables(program, steps, [sizes], 1)
    steps = with_kernels(program, steps, schedule, asked.declared)
    return [(step, _step(asked, step)) for step in steps]


def predicted_factor(problem: Problem, before: Vector, after: Vector, target: Target) -> float:
    """Expected old time over new time: geometric mean over the declared cases."""
    ratios = []
    for case in problem.cases:
        old = estimate(problem, before, target, case.size_map)
        new = estimate(problem, after, target, case.size_map)
        ratios.append(math.log(old.us / new.us))
    return math.exp(sum(ratios) / len(ratios)) if ratios else 1.0


def _step(asked: Asked, step: ProgramStep) -> Estimate:
    match step:
        case LibraryCall():
            return library_time(asked, step)
        case Scan() if step.sums or step.ahead or step.before is not None:
            return scan_rows_time(asked, step)
        case Scan() if asked.schedule.scan_by != "thread" and not in_rows(step):
            return stacked_time(asked, step)
        case Scan():
            return _scan(asked, step)
        case Scatter():
            return scatter_time(asked, step)
        case Convolution(way="patches"):
            return patches_time(asked, step)
        case Convolution(way="product"):
            return convolution_product_time(asked, step)
        case Convolution():
            return convolution_time(asked, step)
        case RecurrentLayers():
            return recurrent_time(asked, step)
        case MatrixProduct():
            return product_time(asked, step)
        case Kernel():
            return _kernel(asked, step)


def _kernel(asked: Asked, kernel: Kernel) -> Estimate:
    if kernel.parts:
        return staged_time(asked, kernel)
    if kernel.tables:
        return row_tables_time(asked, kernel)
    if asked.schedule.reciprocal:
        kernel = with_products(asked.program.pool, kernel)
    if kernel.steps is not None:
        return steps_time(asked, kernel)
    if kernel.ahead is not None:
        return window_time(asked, kernel, kernel.ahead)
    if kernel.stores[0].level == "flat":
        return _line(asked, kernel)
    tiled = tiled_pairs(asked.program.pool, kernel, asked.schedule, [asked.sizes])
    if tiled is not None:
        return pairs_time(asked, kernel, *tiled)
    if (few := few_in(asked.program.pool, kernel, asked.schedule, asked.declared)) is not None:
        return few_time(asked, kernel, *few)
    if (shared := weights_at(asked.program.pool, kernel, [asked.sizes])) is not None:
        if asked.schedule.share_weights:
            return weights_time(asked, kernel, shared)
        return each_its_own(row_time(asked, kernel), shared)
    found = row_time(asked, kernel)
    totals_us = _TOTALS_US - (HEARD_US if asked.schedule.rows_told else 0.0)
    return found if kernel.tail is None else replace(found, us=found.us + totals_us)


def _line(asked: Asked, kernel: Kernel) -> Estimate:
    """Elements apart: in tiles, down planes, in strips, or along the line, as generate.py writes them."""
    schedule, known = asked.schedule, asked.program.stencils
    if schedule.rolled and (loop := recurrence_of(kernel)) is not None:
        return loop_time(asked, kernel, loop)
    if schedule.tile and turn_of(kernel) is not None:
        return _flat(asked, kernel)
    if schedule.side and (cut := cut_of(kernel, known)) is not None:
        return (walk_beside_time if cut.is_beside else walk_down_time)(asked, kernel, cut)
    if schedule.strip and (seen := strips_of(kernel, known)):
        return strip_time(asked, kernel, seen)
    if schedule.apart and (apart := apart_of(asked.program.pool, kernel)) is not None:
        return _flat(asked, apart.kernel)
    lines = lines_of(kernel) if schedule.lines else None
    if lines is not None and worth_lines(lines, schedule, [asked.sizes]):
        return lines_time(asked, kernel, lines)
    return _flat(asked, kernel)


def _allowed(asked: Asked, kernel: Kernel, width: int) -> int:
    """The width that is left where all vectors begin at borders: 1 for slices that begin anywhere."""
    seen = [store.view for store in kernel.stores]
    read = unguarded(*(store.value for store in kernel.stores))
    seen += [expr.view for expr in read if isinstance(expr, Load) and not expr.lookups]
    views = [view for view in seen if is_unit(view) and repeated_row(view) is None]
    sizes = [asked.at(size) for view in views for size in divisors_of(view)]
    return width_over(width, *sizes)


def _flat(asked: Asked, kernel: Kernel) -> Estimate:
    count = asked.at(kernel.stores[0].columns)
    schedule = asked.schedule
    roots = [store.value for store in kernel.stores]
    loads = loads_below(roots)
    within = not asked.as_written and is_partly_there(kernel, schedule, [asked.sizes])
    width = schedule.width if within else asked.width(kernel.stores[0].columns)
    width = width if within or asked.as_written else _allowed(asked, kernel, width)
    items = schedule.items
    turn = turn_of(kernel) if schedule.tile else None
    turned = set(tiled_loads(turn, schedule.tile)) if turn is not None else set[Load]()
    if turn is not None:
        width, items = 1, schedule.tile**2 // schedule.threads
    woven = woven_planes(kernel, schedule, [asked.sizes]) if turn is None and width > 1 else None
    if woven is not None:
        turned, items = set(woven.loads), asked.at(woven.planes)
    warps = math.ceil(count / width / items / _LANES)
    copies = copies_of(kernel, schedule, [asked.sizes]) if width > 1 else None
    once = () if copies is None else copies.values
    each = [store.value for store in without(asked.program.pool, kernel, once).stores]
    cost = instructions_of(each, schedule.fast_math) + reach.A_REQUEST * len(kernel.stores) / width
    cost += instructions_of(once, schedule.fast_math) / items
    plain = {leaf.serial for leaf in unguarded(*roots)}
    lines = {one: reach.lines_of(one, width, asked.element(one), one.serial in plain) for one in loads}
    beside = read_with_vectors(roots, asked.program.sizes, asked.sizes, width) if width > 1 else set()
    lines.update(dict.fromkeys(beside, 1.0 / width))
    lines.update(dict.fromkeys(turned, 1.0))
    lines.update(lines_of_rows(asked, kernel, [one for one in loads if one.serial in plain], width))
    if not asked.as_written:
        lines.update((one, 1.0) for one in loads if _each_alone(asked, one, width))
    of_each = {one: lines[one] for one in loads_below(each)}
    shared = {one: lines[one] for one in loads if one not in of_each}
    cost += reach.asked(of_each.items(), width, schedule.narrow, bool(turned))
    cost += reach.asked(shared.items(), width, schedule.narrow, bool(turned)) / items
    lines.update((one, lines[one] / items) for one in shared)
    stored = asked.stored(kernel.stores)
    fresh, near = asked.from_memory([load for load in loads if load not in turned])
    for load in turned:
        fresh += asked.read(load)
    again = min(fresh, found_again(asked, kernel, in_planes=turn is not None))
    fresh, near = fresh - again, near + again
    walk = Walk(
        fresh_bytes=fresh / warps,
        stored_bytes=stored / warps,
        near_bytes=near / warps,
        instructions=cost * count / warps,
        lines=(sum(lines.values()) + stored_lines(asked, kernel, width)) * count / _LANES / warps,
        trips=math.ceil(items / UNROLLED_COPIES) if once else 1.0,
    )
    together = min(items, UNROLLED_COPIES) if once else items
    held = together * sum(2.0 * width if load.serial in plain else 1.0 for load in of_each)
    held += width * len(once)
    blocks = resident(asked.target, schedule, schedule.threads, held)
    teams = blocks * schedule.threads // _LANES
    found = launched(asked, Work(warps, _LANES, teams, (walk,), 0.0, 0.0, FLAT_NS))
    blocks = math.ceil(warps * _LANES / schedule.threads)
    us = found.us if schedule.persistent else lifetime.until_last_warp(found.us, schedule.threads)
    us += lifetime.crowded_us(asked.target, blocks, fresh + stored) + lifetime.fetched_us(cost * width)
    return replace(found, us=us)


def _each_alone(asked: Asked, load: Load, width: int) -> bool:
    """True for what is one element for fewer of the kernel's than a vector has: it is found for each."""
    run = run_of(load.view)
    return not run.is_one and not load.lookups and asked.at(run) % width != 0


def _by_lanes(asked: Asked, scan: Scan, lanes: int) -> Estimate:
    """Lanes of a warp have a row, and the warp as many rows as there is room for."""
    loads, rows, columns = read_by(scan), asked.at(scan.rows), asked.at(scan.columns)
    stored = rows * columns * sum(DTYPE_BYTES[asked.program.buffers[name].dtype] for name in scan.written)
    warps, width = math.ceil(rows * lanes / _LANES), asked.width(scan.columns)
    tiles = math.ceil(columns / lanes / width)
    taken = scanned(scan.op, scan.value.dtype, asked.schedule.fast_math)
    cost = instructions_of(scan.values, asked.schedule.fast_math) + taken.value + reach.A_REQUEST * 2 / width
    cost += taken.join * (math.log2(lanes) + 2) / width if lanes > 1 else 0.0
    kind = "logsumexp" if scan.op == "logsumexp" else "sum"
    walk = Walk(
        fresh_bytes=sum(asked.read(load) for load in loads) / warps,
        stored_bytes=stored / warps,
        instructions=cost * tiles * width * _LANES,
        chain_cycles=taken.cycles * tiles * width,
        trips=float(tiles),
        join_ns=tiles * join_ns(kind, lanes, asked.schedule.tree),
    )
    threads = asked.schedule.threads
    beside = resident(asked.target, asked.schedule, threads) * threads // _LANES
    return launched(asked, Work(warps, _LANES, beside, (walk,), 0.0, 0.0, FLAT_NS))


def _scan(asked: Asked, scan: Scan) -> Estimate:
    """A block or a thread walks along each row: few rows leave most of the card idle."""
    loads = read_by(scan)
    rows, columns = asked.at(scan.rows), asked.at(scan.columns)
    share = 1
    if asked.schedule.look_back and may_tile(scan):
        share = tiles_of(asked.schedule, asked.target, scan.rows, scan.columns, asked.sizes)
    if share == 1 and (few := lanes_of(asked.schedule, scan, asked.declared)):
        return _by_lanes(asked, scan, few)
    sizes = [DTYPE_BYTES[asked.program.buffers[name].dtype] for name in scan.written]
    stored = float(rows * columns * sum(sizes))
    fresh = sum(asked.read(load) for load in loads)
    lanes = asked.schedule.threads if in_rows(scan) else 1
    width = asked.width(scan.columns)
    tiles = columns / lanes / width
    kind = "logsumexp" if scan.op == "logsumexp" else "sum"
    joined = tiles * join_ns(kind, lanes, asked.schedule.tree) if lanes > 1 else 0.0
    deep = 1 if lanes > 1 else UNROLLED
    taken = scanned(scan.op, scan.value.dtype, asked.schedule.fast_math)
    cost = instructions_of(scan.values, asked.schedule.fast_math) + taken.value + reach.A_REQUEST * 2 / width
    cost += taken.join * (_JOINS + lanes / _LANES) / width if lanes > 1 else 0.0
    units = rows if lanes > 1 else math.ceil(rows / _LANES)
    if share > 1:
        parts = asked.schedule.parts
        units, tiles, deep = rows * share, parts, parts
        joined = 2 * join_ns(kind, lanes, asked.schedule.tree) + LOOK_BACK_NS
    walk = Walk(
        fresh_bytes=fresh / units,
        stored_bytes=stored / units,
        instructions=cost * rows * columns / units,
        chain_cycles=taken.cycles * columns / lanes / share,
        trips=tiles / deep,
        join_ns=joined,
    )
    alone = launched(
        asked, Work(units, lanes, resident(asked.target, asked.schedule, lanes), (walk,), 0.0, 0.0)
    )
    if share == 1:
        return alone
    memset = 0 if scan.value.dtype == "f32" else 1
    return replace(alone, us=alone.us + memset * asked.target.launch_us, launches=alone.launches + memset)
