"""The model of time for scans whose rows are summed up at once, by a warp or a block each.

Owns what such a team asks for; lifetime.py makes times of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from workbench.playbook.analysis import lifetime, reach
from workbench.playbook.analysis.arithmetic import accumulated, instructions_of, join_ns, scanned
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import BLOCK_NS, FLAT_NS, Walk, Work
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.analysis.scan_lanes import WARP, lanes_of
from workbench.playbook.analysis.scan_sums import Summed, sums_of
from workbench.playbook.analysis.scan_tail import is_before, is_total
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import Expr, Load, loads_below, walk
from workbench.playbook.ir.program import Scan
from workbench.playbook.schedules.residency import resident

_JOINS = 7.0
"""Of a lane's total in a scan: five within its warp, what comes before, and the carry."""


def scan_rows_time(asked: Asked, scan: Scan) -> Estimate:
    """Time of a scan that takes its reductions along."""
    schedule, summed = asked.schedule, sums_of(asked.program.pool, scan)
    rows, columns, width = asked.at(scan.rows), asked.at(scan.columns), asked.width(scan.columns)
    lanes, beside_in_warp = schedule.threads, 1
    few = lanes_of(schedule, scan, asked.declared)
    by_warp = schedule.row_sums != "block" if scan.sums else few > 0
    if by_warp:
        lanes = few or WARP
        beside_in_warp = WARP // lanes
    teams = math.ceil(rows / beside_in_warp)
    scans = [*scan.ahead, *([scan] if scan.op else [])]
    roots = [*(one.value for one in scan.ahead), scan.value, *(store.value for store in scan.tail)]
    roots += [part for one in summed for part in one.parts.shared.values()]
    tiles = math.ceil(columns / lanes / width)
    covered = tiles * lanes * width * beside_in_warp
    first, seen = _first_walks(asked, scan, lanes, (teams, covered))
    loads = _loads(scan, roots, summed)
    near = _read(asked, [one for one in loads if asked.is_recent(one) and one.buffer not in seen])
    fresh = _read(asked, [one for one in loads if not asked.is_recent(one) and one.buffer not in seen])
    again = _read(asked, [one for one in loads if one.buffer in seen])
    sums = {store.buffer for store in scan.sums}
    along = [asked.element_of(name) for name in scan.written if name not in sums]
    stored = float(rows * columns * sum(along)) + asked.stored(scan.sums)
    cost = instructions_of(roots, schedule.fast_math)
    joins = _JOINS if beside_in_warp == 1 else math.log2(lanes) + 2.0
    for one in scans:
        taken = scanned(one.op, one.value.dtype, schedule.fast_math)
        cost += taken.value + taken.join * joins / width
    cost += reach.A_REQUEST * (len(loads) + len(along)) / width + sum(_entered(asked, one) for one in summed)
    joined = join_ns("sum", lanes, schedule.tree)
    results = sum(asked.at(one.beside) for one in summed)
    walk_along = Walk(
        fresh_bytes=fresh / teams,
        stored_bytes=stored / teams,
        again_bytes=again / teams,
        near_bytes=near / teams,
        instructions=cost * covered,
        trips=float(tiles),
        join_ns=(tiles * len(scans) + results) * joined,
    )
    held = width * (2.0 + len(loads)) + results * (1.0 + width * any(one.parts.own for one in summed))
    threads = WARP if by_warp else lanes
    beside = resident(asked.target, schedule, schedule.threads, held) * schedule.threads // threads
    place_ns = FLAT_NS if by_warp else BLOCK_NS
    left = float(asked.target.shared_bytes_per_sm)
    walks = (*first, walk_along)
    found = launched(asked, Work(teams, threads, beside, walks, again / teams, left, place_ns))
    if not by_warp:
        return found
    return replace(found, us=lifetime.until_last_warp(found.us, schedule.threads))


def _first_walks(
    asked: Asked, scan: Scan, lanes: int, work: tuple[int, int]
) -> tuple[list[Walk], frozenset[str]]:
    """The walks before the last, by so many teams, each over so many columns with those that lanes go beyond;
    and what they read."""
    if scan.before is None:
        return [], frozenset()
    space, (teams, covered) = RowSpace(asked.program.pool, scan.before), work
    width, fast = asked.width(scan.columns), asked.schedule.fast_math
    walks, seen = list[Walk](), set[str]()
    for step in passes_of(space, scan.before, asked.schedule.single_pass):
        loads = space.column_loads(step.roots, guarded=True)
        fresh = _read(asked, [load for load in loads if load.buffer not in seen])
        again = _read(asked, [load for load in loads if load.buffer in seen])
        seen.update(load.buffer for load in loads)
        cost = instructions_of(step.roots, fast) + reach.A_REQUEST * len(loads) / width
        cost += sum(accumulated(one.kind, width)[0] for one in step.accumulators)
        joins = sum(join_ns(one.kind, lanes, asked.schedule.tree) for one in step.accumulators)
        walk_first = Walk(
            fresh / teams, 0.0, again / teams, instructions=cost * covered, trips=1.0, join_ns=joins
        )
        walks.append(walk_first)
    return walks, frozenset(seen)


def _loads(scan: Scan, roots: Iterable[Expr], summed: Iterable[Summed]) -> list[Load]:
    """What is read from memory, each once."""
    found = {load.serial: load for load in loads_below(roots)}
    for one in summed:
        found.update((leaf.serial, leaf) for leaf in one.parts.own if isinstance(leaf, Load))
    made = {store.buffer for store in scan.before.stores} if scan.before is not None else set[str]()
    made.update(one.buffer for one in scan.ahead)
    read = [load for load in found.values() if load.buffer not in made]
    return [load for load in read if not (is_total(load, scan) or is_before(load, scan))]


def _read(asked: Asked, loads: Iterable[Load]) -> float:
    """Bytes: what is read at two places of a row comes from memory once."""
    by_buffer: dict[str, float] = {}
    for load in loads:
        by_buffer[load.buffer] = by_buffer.get(load.buffer, 0.0) + asked.read(load)
    return sum(min(part, asked.bytes_of(name)) for name, part in by_buffer.items())


def _entered(asked: Asked, one: Summed) -> float:
    """Instructions of a column for one reduction, in all results side by side."""
    body = one.reduction.body
    known = {below.serial for part in walk(body) if part.serial in one.parts.shared for below in walk(part)}
    return asked.at(one.beside) * (instructions_of([body], asked.schedule.fast_math, known) + 1.0)
