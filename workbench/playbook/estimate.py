"""A rough model of time, good enough to rank techniques before anything is compiled.

Owns what a problem under a schedule asks of the multiprocessors: bytes, instructions, trips, registers; and
how steps follow one another. lifetime.py makes a time of it, arithmetic.py says what an operation costs.
The referee's model, which sees counts and registers, is the one that a card is judged by; neither is a
measurement. docs/notes/2026-11-21-model-of-time.md says how far this one is off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from workbench.model import DTYPE_BYTES, Problem, Target, Vector
from workbench.playbook import lifetime, reach
from workbench.playbook.arithmetic import accumulated, instructions_of, join_cycles, join_ns
from workbench.playbook.asked_bytes import Asked
from workbench.playbook.divisions import with_products
from workbench.playbook.early_loads import asked_early_us
from workbench.playbook.expr import Load, loads_below, unguarded, walk
from workbench.playbook.fitting import (
    by_length,
    for_declared,
    goes_ahead,
    in_whole_warps,
    lanes_of,
    most_columns,
    most_of_piece,
    shares_warps,
)
from workbench.playbook.following import NOTHING, Estimate, in_order, one_then
from workbench.playbook.in_flight import UNROLLED, steps_ahead, vectors_together
from workbench.playbook.last_vector import is_partly_there
from workbench.playbook.library_work import asked_of
from workbench.playbook.lifetime import FLAT_NS, START_US, Walk, Work
from workbench.playbook.lookback_kernel import LOOK_BACK_NS, may_tile, tiles_of
from workbench.playbook.odd_rows import is_peeled
from workbench.playbook.program import Kernel, LibraryCall, ProgramStep, Scan
from workbench.playbook.residency import in_clusters, resident, spilled
from workbench.playbook.row_passes import Pass, RowSpace, passes_of, waiting_loads
from workbench.playbook.row_totals import with_tails
from workbench.playbook.scan_kernel import in_rows
from workbench.playbook.schedule import (
    Schedule,
    bundle_of,
    fit_threads,
    pieces_of,
    schedule_of,
    split_team,
    split_threads,
)
from workbench.playbook.shape_classes import Holder, class_at, classes_of
from workbench.playbook.techniques import settled
from workbench.playbook.together_kernel import keeps_pieces, piece_of, share_held, together
from workbench.playbook.together_rows import ahead_of, blocks_of, in_turns, taken_in_turns
from workbench.playbook.traits import program_of, scheduled_shape
from workbench.playbook.turning import tiled_loads, turn_of

_AHEAD = 0.965
"""Time with the next row copied ahead over time without, where one block fills a multiprocessor: measured."""
_CLUSTER_NS = 600.0
"""Two barriers of a cluster, each behind a fence of the whole card, and a way to another multiprocessor."""
_PARTIALS_NS, _GATHERED = 400.0, 4
"""What reads the partial results of a split waits for so many of them at a time."""
_ARRIVAL_US = 0.8  # the last block of a split learns that it is (a guess)
_TOTALS_US = 2.0  # to arrive, and to join what all blocks of a launch have left (a guess)
_JOINED_NS = 2200.0
"""More that a split's join takes: fences, and instructions that are fetched cold. An H100 needs 2.4 to 2.8 us
beyond what else is counted for logsumexp, cross_entropy, column_mean, whatever their size."""
_TOLD_US, _COUNTED, _ASKED_NS = 1.85, 0.125, 0.013
"""Until a word is heard; part of an arrival at one counter, a block; and for a word a block waits for: all
ask for the same lines. An H100's softmax of 1,048,576 takes 9.2, 8.8, 10.7 us with 132, 264, 528 blocks."""
_PAST_L2 = 0.99
"""Time of a split whose results are streamed past the L2 that it reads its rows from again (a guess)."""
_LANES = 32
_ABREAST = 4  # loads of a thread that abreast_kernel.py unrolls


def estimate(problem: Problem, vector: Vector, target: Target, sizes: Mapping[str, int]) -> Estimate:
    """Model a vector at one assignment of sizes."""
    return _estimate(problem.digest, Holder(problem), vector, target, tuple(sizes.items()))


@lru_cache(maxsize=4096)
def _estimate(
    digest: str, holder: Holder, vector: Vector, target: Target, at: tuple[tuple[str, int], ...]
) -> Estimate:
    problem, sizes = holder.problem, dict(at)
    if classes := classes_of(problem, vector):
        taken = class_at(classes, problem, sizes)
        return estimate(taken.problem, taken.vector, target, sizes)
    return estimate_schedule(problem, schedule_of(settled(problem, vector)), target, sizes)


def estimate_schedule(
    problem: Problem, schedule: Schedule, target: Target, sizes: Mapping[str, int], as_asked: bool = False
) -> Estimate:
    """Model a schedule; ``as_asked`` is for old receipts: single passes stay, and no row is peeled."""
    program = program_of(problem, schedule.fuse, schedule.without)
    model = _Model(program, schedule, target, sizes)
    model.as_asked = as_asked
    steps = with_tails(program) if schedule.join_rows else program.steps
    total = in_order([(step, model.step(step)) for step in steps], schedule, target)
    return replace(total, us=total.us - target.launch_us + START_US)


def predicted_factor(problem: Problem, before: Vector, after: Vector, target: Target) -> float:
    """Expected old time over new time: geometric mean over the declared cases."""
    ratios = []
    for case in problem.cases:
        old = estimate(problem, before, target, case.size_map)
        new = estimate(problem, after, target, case.size_map)
        ratios.append(math.log(old.us / new.us))
    return math.exp(sum(ratios) / len(ratios)) if ratios else 1.0


@dataclass
class _Row:
    """What the passes over a row know of one another."""

    units: int
    pieces: int
    waits: set[int]
    seen: set[int]
    known: set[int]
    together: int = 1
    """Rows that a block bundles."""
    behind: float = 0.0
    """Part of what waits that there is no room for: read again, from L2."""


class _Model(Asked):
    def step(self, step: ProgramStep) -> Estimate:
        """One step of the program."""
        match step:
            case LibraryCall():
                return self.library(step)
            case Scan():
                return self.scan(step)
            case Kernel():
                return self.kernel(step)

    def scan(self, scan: Scan) -> Estimate:
        """A block or a thread walks along each row: few rows leave most of the card idle."""
        loads = [load for load in loads_below(scan.values) if load.buffer in self.program.buffers]
        rows, columns = self.at(scan.rows), self.at(scan.columns)
        sizes = [DTYPE_BYTES[self.program.buffers[name].dtype] for name in scan.written]
        stored = float(rows * columns * sum(sizes))
        fresh = sum(self._read(load) for load in loads)
        lanes = self.schedule.threads if in_rows(scan) else 1
        width = self._width(scan.columns)
        tiles = columns / lanes / width
        joined = tiles * join_ns("sum", lanes, self.schedule.tree) if lanes > 1 else 0.0
        deep = 1 if lanes > 1 else UNROLLED
        cost = instructions_of(scan.values, self.schedule.fast_math) + 2 + reach.A_REQUEST * 2 / width
        units = rows if lanes > 1 else math.ceil(rows / _LANES)
        share = 1
        if self.schedule.look_back and may_tile(scan):
            share = tiles_of(self.schedule, self.target, scan.rows, scan.columns, self.sizes)
        if share > 1:
            parts = self.schedule.parts
            units, tiles, deep = rows * share, parts, parts
            joined = 2 * join_ns("sum", lanes, self.schedule.tree) + LOOK_BACK_NS
        walk = Walk(
            fresh_bytes=fresh / units,
            stored_bytes=stored / units,
            instructions=cost * rows * columns / units,
            chain_cycles=5.0 * columns / lanes / share,
            trips=tiles / deep,
            join_ns=joined,
        )
        alone = self._launched(
            Work(units, lanes, resident(self.target, self.schedule, lanes), (walk,), 0.0, 0.0)
        )
        if share == 1:
            return alone
        memset = 0 if scan.value.dtype == "f32" else 1
        return replace(alone, us=alone.us + memset * self.target.launch_us, launches=alone.launches + memset)

    # -------------------------------------------------------------------------------- library

    def library(self, call: LibraryCall) -> Estimate:
        moved, operations = asked_of(self.program, call, self.sizes)
        us = 1e6 * max(moved / self.target.dram_bytes_per_s, operations / self.target.fp32_flops_per_s)
        us += self.target.launch_us
        return Estimate(us, moved, 1, us, 1.0)

    # -------------------------------------------------------------------------------- kernels

    def kernel(self, kernel: Kernel) -> Estimate:
        stored = sum(
            self.at(store.view.size) * DTYPE_BYTES[self.program.buffers[store.buffer].dtype]
            for store in kernel.stores
        )
        if self.schedule.reciprocal:
            kernel = with_products(self.program.pool, kernel)
        if kernel.stores[0].level == "flat":
            return self._flat(kernel, stored)
        found = self._row(kernel, stored)
        return found if kernel.tail is None else replace(found, us=found.us + _TOTALS_US)

    def _flat(self, kernel: Kernel, stored: float) -> Estimate:
        count = self.at(kernel.stores[0].columns)
        schedule = self.schedule
        roots = [store.value for store in kernel.stores]
        loads = loads_below(roots)
        within = not self.as_asked and is_partly_there(kernel, schedule, [self.sizes])
        width = schedule.width if within else self._width(kernel.stores[0].columns)
        items = schedule.items
        turn = turn_of(kernel) if schedule.tile else None
        turned = set(tiled_loads(turn, schedule.tile)) if turn is not None else set[Load]()
        if turn is not None:
            width, items = 1, schedule.tile**2 // schedule.threads
        warps = math.ceil(count / width / items / _LANES)
        cost = instructions_of(roots, schedule.fast_math) + reach.A_REQUEST * len(kernel.stores) / width
        plain = {leaf.serial for root in roots for leaf in unguarded(root)}
        lines = {one: reach.lines_of(one, width, self._size(one), one.serial in plain) for one in loads}
        lines.update(dict.fromkeys(turned, 1.0))
        cost += reach.asked(lines.items(), width, schedule.narrow, turn is not None)
        fresh, near = self._from_memory([load for load in loads if load not in turned])
        for load in turned:
            fresh += self._read(load)
        walk = Walk(
            fresh_bytes=fresh / warps,
            stored_bytes=stored / warps,
            near_bytes=near / warps,
            instructions=cost * count / warps,
            lines=sum(lines.values()) * count / _LANES / warps,
            trips=1.0,
        )
        held = items * sum(2.0 * width if load.serial in plain else 1.0 for load in loads)
        blocks = resident(self.target, schedule, schedule.threads, held)
        teams = blocks * schedule.threads // _LANES
        found = self._launched(Work(warps, _LANES, teams, (walk,), 0.0, 0.0, FLAT_NS))
        blocks = math.ceil(warps * _LANES / schedule.threads)
        return replace(found, us=found.us + lifetime.crowded_us(self.target, blocks, fresh + stored))

    def _row(self, kernel: Kernel, stored: float) -> Estimate:
        space = RowSpace(self.program.pool, kernel)
        rows, columns = self.at(space.rows), self.at(space.columns)
        shape = scheduled_shape(space, kernel, self.schedule)
        alone = most_columns(replace(self.schedule, team="block", team_fit=False), shape)
        most = most_of_piece(self.schedule, shape) * self.schedule.cluster if self.schedule.cluster > 1 else 0
        if alone < columns <= most:
            return self._clustered(space, kernel, stored)
        short, long = by_length(for_declared(self.schedule, shape, [self.sizes]), shape, [self.sizes])
        fit = short or long
        assert fit is not None
        if self.as_asked:
            fit = replace(fit, single_pass=self.schedule.single_pass)
        kept = taken_in_turns(space, kernel)
        if turns := in_turns(self.schedule, self.target, rows, columns, kept):
            found = self._row_as(kernel, stored, ahead_of(self.schedule), turns[1])
            lost = self._swept_away(space, kernel, stored, math.ceil(rows / turns[0]))
            us = found.us + 1e6 * lost / self.target.dram_bytes_per_s
            return replace(found, us=us, dram_bytes=found.dram_bytes + lost)
        pieces = pieces_of(fit, self.target, rows, columns)
        if pieces > 1:
            fit = replace(fit, threads=split_threads(fit), fit=False)
        if pieces > 1 and self._meets(space, kernel, fit, pieces):
            return self._row_as(kernel, stored, replace(together(fit), team="block"), pieces)
        if pieces > 1:
            single = self.schedule.single_pass
            fit = replace(fit, cache="reread", team=split_team(fit), persistent=False, single_pass=single)
        found = self._row_as(kernel, stored, fit, pieces)
        us = asked_early_us(found.us, rows, self.target) if fit.early else found.us
        if pieces == 1:
            us *= reach.strayed(shape, fit, self.sizes, found.dram_bytes, self.target)
        return replace(found, us=us * _AHEAD if fit.prefetch else us)

    def _clustered(self, space: RowSpace, kernel: Kernel, stored: float) -> Estimate:
        """Every block keeps a piece; a row is a wave's as soon as all of its blocks have found room."""
        blocks, rows = self.schedule.cluster, self.at(space.rows)
        piece = math.ceil(self.at(space.columns) / blocks)
        own = replace(self.schedule, team="block", team_fit=False, join_grid=False)
        own = replace(own, prefetch=goes_ahead(own, scheduled_shape(space, kernel, own)))
        if own.fit:
            own = replace(own, threads=fit_threads(piece, rows * blocks, self.target))
        return self._row_as(kernel, stored, own, blocks)

    def _row_as(self, kernel: Kernel, stored: float, schedule: Schedule, pieces: int) -> Estimate:
        space = RowSpace(self.program.pool, kernel)
        rows, columns = self.at(space.rows), self.at(space.columns)
        passes = passes_of(space, kernel, schedule.single_pass)
        keeps = schedule.cache != "reread"
        waits = {wait.load.serial for wait in waiting_loads(space, passes)} if keeps else set[int]()
        lanes = lanes_of(schedule)
        together = bundle_of(rows, schedule.width) if schedule.bundle and pieces > 1 else 1
        if schedule.team == "bundle":
            together = reach.rows_abreast(schedule, scheduled_shape(space, kernel, self.schedule), self.sizes)
        if shares_warps(schedule):
            together = _LANES // lanes
        if together > 1:
            lanes = _LANES if shares_warps(schedule) else schedule.threads
            rows = math.ceil(rows / together)
        units = rows * pieces if lanes > 1 else math.ceil(rows * pieces / _LANES)
        meets = keeps and pieces > 1 and schedule.join_grid  # a cluster's blocks keep all of their pieces
        in_part = meets and not schedule.prefetch
        held = share_held(schedule.threads, len(waits), columns / pieces) if in_part else 1.0
        walks, again = [], 0.0
        seen: set[int] = set()
        known: set[int] = set()
        for step in passes:
            row = _Row(units, pieces, waits, seen, known if keeps else set(), together, 1.0 - held)
            one = self._walk(space, step, schedule, row)
            again = max(again, one.again_bytes)
            walks.append(one)
        kept = held * len(waits) * columns / pieces * (together if schedule.team in ("bundle", "warp") else 1)
        if more := spilled(self.target, schedule, kept / lanes):
            walks[-1] = replace(walks[-1], instructions=walks[-1].instructions + more * max(lanes, _LANES))
        rest = stored - sum(self._stored(step.stores) for step in passes)
        walks[-1] = replace(walks[-1], stored_bytes=walks[-1].stored_bytes + rest / units)
        mine = kept / lanes if schedule.cache == "registers" else 0.0
        shared = 4 * kept if schedule.cache == "shared" else 0.0
        shared_by_block = shared * schedule.threads / max(lanes, _LANES)
        blocks = resident(self.target, self.schedule, schedule.threads, mine, shared_by_block)
        teams = blocks * schedule.threads // max(lanes, _LANES)
        left = self.target.shared_bytes_per_sm - teams * shared
        size = again if keeps or pieces > 1 else max((walk.fresh_bytes for walk in walks[:1]), default=0.0)
        if pieces > 1:
            own = lanes // together * self._width(space.rows) if together > 1 else lanes
            gathered = _PARTIALS_NS * math.ceil(pieces / own / _GATHERED)
            work = Work(units, max(lanes, _LANES), teams, tuple(walks), 0.0, 0.0)
            met = sum(bool(step.accumulators) for step in passes)
            met_ns = _CLUSTER_NS
            if schedule.join_grid and schedule.prefetch:
                arriving = self.target.sm_count * blocks_of(schedule.threads)
                met_ns = 1e3 * self.target.meeting_of(arriving) + gathered
            if keeps and (schedule.prefetch or not schedule.join_grid):
                walks = [replace(one, join_ns=one.join_ns + met_ns * bool(one.join_ns)) for one in walks]
                work = replace(work, walks=tuple(walks))
                if schedule.prefetch:  # the next row on its way is like a block beside; nobody comes and goes
                    work = replace(work, resident=2 * work.resident, place_ns=0.0)
                room = 0 if schedule.join_grid else in_clusters(self.target, self.schedule.cluster)
                return self._launched(work, room, stays=schedule.prefetch)
            if keeps:
                found = self._launched(work)
                return replace(found, us=found.us + met * self._meeting_us(work, pieces, gathered))
            return self._split(work, [bool(step.accumulators) for step in passes], gathered)
        work = Work(units, max(lanes, _LANES), teams, tuple(walks), size, left)
        if lanes != _LANES:
            return self._launched(work)
        found = self._launched(replace(work, place_ns=FLAT_NS))
        return replace(found, us=lifetime.until_last_warp(found.us, schedule.threads))

    def _walk(self, space: RowSpace, step: Pass, schedule: Schedule, row: _Row) -> Walk:
        """One pass of one team."""
        columns = self.at(space.columns) / row.pieces * row.together
        lanes, width = lanes_of(schedule), self._width(space.columns)
        peeled = not self.as_asked and is_peeled(schedule, space, step, self.at(space.columns))
        width, joined = schedule.width if peeled else width, lanes
        if schedule.team == "warp":
            columns, lanes = in_whole_warps(columns, width, lanes, row.together), _LANES
        elif row.together > 1:
            lanes = joined = schedule.threads
            width = row.together // _LANES if schedule.team == "bundle" else self._width(space.rows)
        fresh = again = behind = 0.0
        requests = float(len(step.stores))
        news = []
        for load in space.column_loads(step.roots):
            size = self._read(load) * reach.read_apart(space, load, schedule)
            if load.serial not in row.seen:
                news.append((load, size))
                requests += 1
            elif load.serial not in row.waits:
                again += size
                requests += 1
            else:
                behind += size * row.behind
                requests += 1 if schedule.cache == "shared" else row.behind
            row.seen.add(load.serial)
        near = sum(size for load, size in news if self._is_recent(load))
        fresh = sum(size for _, size in news) - near
        near += behind
        row.known.update(
            e.serial for root in step.roots for part in space.row_parts(root) for e in walk(part)
        )
        cost = instructions_of(step.roots, schedule.fast_math, row.known)
        cost += (1 + reach.A_REQUEST * requests) / width
        entered = 0 if self.as_asked else 1 if schedule.chains else width
        together = vectors_together(schedule, width, len(news)) if entered > 1 else 1
        costs = [accumulated(one.kind, entered * together) for one in step.accumulators]
        cost += sum(issued for issued, _ in costs)
        mine = columns / lanes
        chain = mine * max((cycles for _, cycles in costs), default=0.0)
        if schedule.chains and width > 1:
            chain = chain / width + width * max((join_cycles(a.kind) for a in step.accumulators), default=0.0)
        in_turn = row.pieces > 1 and not row.waits and row.together == 1 and not self.as_asked
        deep = steps_ahead(schedule, step, width, entered, in_turn)
        if schedule.team == "bundle":
            deep = min(deep, _ABREAST * schedule.items)
        if schedule.cache == "registers" and row.waits:
            deep = 8
        reads = bool(news) or again > 0 or behind > 0
        team = schedule.team
        stored = sum(self._stored([s]) * reach.written_apart(space, s, team) for s in step.stores)
        return Walk(
            fresh_bytes=fresh / row.units,
            stored_bytes=stored / row.units,
            again_bytes=again / row.units,
            near_bytes=near / row.units,
            instructions=cost * (columns + _LANES * peeled) * (_LANES if lanes == 1 else 1),
            chain_cycles=chain,
            trips=max(mine / width / deep, 1.0) if reads else 0.0,
            join_ns=max((join_ns(one.kind, joined, schedule.tree) for one in step.accumulators), default=0.0),
        )

    def _split(self, work: Work, makes: list[bool], gathered_ns: float) -> Estimate:
        """Every pass is a launch of its own; what one read the next finds in L2 if it is small."""
        total = NOTHING
        walks = list(work.walks)
        last = self.schedule.join_last and all(makes)
        if makes[-1] and not last:
            walks.append(Walk())
        joined = 0.0
        gathered_ns += 0.0 if self.as_asked else _JOINED_NS
        for one in walks:
            small = work.teams * one.again_bytes <= 0.8 * self.target.l2_bytes
            found = {"near_bytes" if small else "fresh_bytes": one.again_bytes, "again_bytes": 0.0}
            gathered = replace(one, join_ns=one.join_ns + joined, **found)
            joined = one.join_ns + gathered_ns
            total = one_then(total, self._launched(replace(work, walks=(gathered,))))
        if last:
            total = replace(total, us=total.us + _ARRIVAL_US + joined * 1e-3)
        if self.schedule.stream_stores and any(one.stored_bytes and one.again_bytes for one in walks):
            total = replace(total, us=total.us * _PAST_L2)
        return total

    def _meeting_us(self, work: Work, pieces: int, gathered_ns: float) -> float:
        """Until every block has joined what all of its row have left; waiting for words is reading them."""
        join_ns = work.walks[0].join_ns
        if self.schedule.join_words:
            counted_us = _COUNTED * self.target.arrival_us * work.teams
            return _TOLD_US + counted_us + (_ASKED_NS * work.teams * pieces + join_ns) * 1e-3
        return self.target.meeting_of(work.teams) + (join_ns + gathered_ns) * 1e-3

    def _meets(self, space: RowSpace, kernel: Kernel, schedule: Schedule, pieces: int) -> bool:
        """True where the blocks of a row keep their pieces and wait for one another."""
        return keeps_pieces(space, kernel, schedule, piece_of(self.at(space.columns), pieces))

    def _launched(self, work: Work, multiprocessors: int = 0, stays: bool = False) -> Estimate:
        target = (
            self.target.model_copy(update={"sm_count": multiprocessors}) if multiprocessors else self.target
        )
        blocks = work.teams * work.threads / max(self.schedule.threads, work.threads)
        stays = stays or self.schedule.persistent
        time = lifetime.launch_time(target, work if stays else replace(work, blocks=blocks))
        us = time.us * (0.995 if self.schedule.stream else 1.0)
        if self.schedule.persistent:
            us *= 1.002
        return Estimate(us + self.target.launch_us, time.dram_bytes, 1, 0.0, time.flight_share)
