"""What a kernel with a row algorithm is estimated to take: who walks over a row, what is kept, who meets.

Owns the choice of teams under a schedule, as fitting.py and the launch make it, and the time that teams of
one row wait for one another. walk_estimate.py models a pass; launch_estimate.py makes a time of passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from workbench.model import Target
from workbench.playbook.analysis import lifetime, reach
from workbench.playbook.analysis.accumulators import MEMBERS
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.co_moments import MOMENTS
from workbench.playbook.analysis.following import NOTHING, Estimate, one_then
from workbench.playbook.analysis.lifetime import FLAT_NS, Walk, Work
from workbench.playbook.analysis.row_passes import RowSpace, passes_of, waiting_loads
from workbench.playbook.analysis.row_shapes import scheduled_shape
from workbench.playbook.analysis.shared_divisors import row_divisions
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.estimates.walk_estimate import LANES, Crew, row_instructions, walk_of
from workbench.playbook.ir.expr import Pool
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.kernels.early_loads import asked_early_us
from workbench.playbook.kernels.odd_rows import is_peeled
from workbench.playbook.kernels.together_kernel import keeps_pieces, piece_of, share_held, together
from workbench.playbook.kernels.together_rows import ahead_of, bytes_in_turns, in_turns
from workbench.playbook.schedules.fitting import (
    by_length,
    for_declared,
    goes_ahead,
    lanes_of,
    lie_at_odd_places,
    most_columns,
    most_of_piece,
    shares_warps,
)
from workbench.playbook.schedules.residency import in_clusters, resident, spilled
from workbench.playbook.schedules.schedule import (
    Schedule,
    bundle_of,
    fit_threads,
    in_bundles,
    pieces_of,
    split_team,
    split_threads,
)

_AHEAD = 0.965
"""Time with the next row copied ahead over time without, where one block fills a multiprocessor: measured."""
_IN_TURNS, _OF_TEAMS, _OF_ROUNDS = 1.05, 0.6, 0.5
"""Time of rows that teams of blocks take in turns, over what is counted for it: more where few teams fill
each other's pauses, and where few rounds are mostly a beginning and an end. An H100 takes 1.25 of it with
three teams (group norm, 896 rows of 8.4 MB), 1.10 to 1.14 with seven (rows of 4.2 MB), 1.06 to 1.10 with 18
and 28, and 1.3 in two rounds of 32 teams."""
_PEELED = 20.0
"""Registers that a row in shared memory takes more where it is peeled: 40 to 54 are seen in machine code,
which leaves room for one block of 1024 threads. An H100 takes 8.7 ms for an l2_norm of 32768 rows of 65535 in
clusters of such blocks, 6.6 where the compiler unrolls less and packs it into 32, 5.8 with blocks of 512."""
_DRAWN_BY_BUNDLES = 36.0
"""Bytes a nanosecond of a multiprocessor whose block has a bundle of rows. Sums over 8192 columns of as many
rows, 64 blocks of 1024 threads, and what is multiplied with them, take an H100 170 us; 146 were expected."""
_CLUSTER_NS = 600.0
"""Two barriers of a cluster, each behind a fence of the whole card, and a way to another multiprocessor."""
_PARTIALS_NS, _GATHERED = 400.0, 4
"""What reads the partial results of a split waits for so many of them at a time."""
_AT_ONCE = 4
"""Values of a column whose moments are taken together: width 8 has 120 registers, width 4 has 58 to 62."""
_ARRIVAL_US = 0.8  # the last block of a split learns that it is (a guess)
_JOINED_NS = 2200.0
"""More that a split's join takes: fences, and instructions that are fetched cold. An H100 needs 2.4 to 2.8 us
beyond what else is counted for logsumexp, cross_entropy, column_mean, whatever their size."""
HEARD_US = 0.6
"""Less than that where the last block hears the parts in words: a sum over 67 MB takes 21.0 us on an H200 by
a counter, 20.3 by words, 19.7 when nobody joins the parts."""
_TOLD_US, _COUNTED, _ASKED_NS = 1.85, 0.125, 0.013
"""Until a word is heard; part of an arrival at one counter, a block; and for a word a block waits for: all
ask for the same lines. An H100's softmax of 1,048,576 takes 9.2, 8.8, 10.7 us with 132, 264, 528 blocks."""
_PAST_L2 = 0.99
"""Time of a split whose results are streamed past the L2 that it reads its rows from again (a guess)."""


_FAR, _DRIFTING = 1e9, 1.05
"""Bytes that a pass writes, and time of one whose blocks, as many as the card holds, go side by side over so
much: they drift apart. x / norm(x) of 7.5 GB takes an H100 5344 us so, 5046 in blocks that begin one where
another ends. Of 268 MB nothing of it was seen."""


def row_time(asked: Asked, kernel: Kernel) -> Estimate:
    """Of all rows of a kernel."""
    schedule, target = asked.schedule, asked.target
    if not asked.as_written:
        kernel = row_divisions(asked.program.pool, kernel, schedule.fast_math)
    space = RowSpace(asked.program.pool, kernel)
    rows, columns = asked.at(space.rows), asked.at(space.columns)
    shape = scheduled_shape(space, kernel, schedule)
    alone = most_columns(replace(schedule, team="block", team_fit=False), shape)
    most = most_of_piece(schedule, shape) * schedule.cluster if schedule.cluster > 1 else 0
    if alone < columns <= most:
        return _clustered(asked, space, kernel)
    short, long = by_length(for_declared(schedule, shape, [asked.sizes]), shape, [asked.sizes])
    fit = short or long
    assert fit is not None
    if asked.as_written:
        fit = replace(fit, single_pass=schedule.single_pass)
    if turns := in_turns(schedule, target, rows, columns, bytes_in_turns(asked.program, kernel)):
        found = _row_as(asked, kernel, ahead_of(schedule), turns[1])
        teams, rounds = turns[0], math.ceil(rows / turns[0])
        found = replace(found, us=found.us * (_IN_TURNS + _OF_TEAMS / teams + _OF_ROUNDS / rounds))
        return _with_more(asked, found, asked.swept_away(space, kernel, rounds))
    # One step a block or as many as fill the card: the model of a walk does not tell the two apart rightly.
    pieces = min(pieces_of(one, target, rows, columns) for one in (fit, replace(fit, join_told=False)))
    fit = replace(fit, bundle=fit.bundle and (pieces > 1 or _in_one_piece(asked, fit, rows, columns)))
    if pieces > 1 or fit.bundle:
        fit = replace(fit, threads=split_threads(fit), fit=False)
        if keeps_pieces(space, kernel, fit, piece_of(columns, pieces)):
            return _row_as(asked, kernel, replace(together(fit), team="block"), pieces)
        fit = replace(fit, cache="reread", team=split_team(fit), persistent=False)
        fit = replace(fit, single_pass=schedule.single_pass)
    found = _row_as(asked, kernel, fit, pieces)
    us = asked_early_us(found.us, rows, target) if fit.early else found.us
    if pieces == 1:
        us *= reach.strayed(shape, fit, asked.sizes, found.dram_bytes, target)
    elif fit.team == "thread":
        us *= reach.strayed_in_pieces(shape, asked.sizes, found.dram_bytes, target)
    return replace(found, us=us * _AHEAD if fit.prefetch else us)


def _in_one_piece(asked: Asked, fit: Schedule, rows: int, columns: int) -> bool:
    """True where a bundle of rows has a block of its own: a piece less than two, joined in the same way."""
    return not asked.as_written and in_bundles(fit, rows, columns)


def _with_more(asked: Asked, found: Estimate, more: float) -> Estimate:
    """With bytes that have to come from memory beside."""
    us = found.us + 1e6 * more / asked.target.dram_bytes_per_s
    return replace(found, us=us, dram_bytes=found.dram_bytes + more)


def _clustered(asked: Asked, space: RowSpace, kernel: Kernel) -> Estimate:
    """Every block keeps a piece; a row is a wave's as soon as all of its blocks have found room."""
    blocks = asked.schedule.cluster
    own = replace(asked.schedule, team="block", team_fit=False, join_grid=False)
    own = replace(own, prefetch=goes_ahead(own, scheduled_shape(space, kernel, own)))
    if own.fit:
        piece = math.ceil(asked.at(space.columns) / blocks)
        own = replace(own, threads=fit_threads(piece, asked.at(space.rows) * blocks, asked.target))
    return _row_as(asked, kernel, own, blocks)


def _row_as(asked: Asked, kernel: Kernel, schedule: Schedule, pieces: int) -> Estimate:
    """Rows of so many pieces, by a schedule that fits them."""
    crew = _crew(asked, kernel, schedule, pieces)
    work = _work(asked, crew, kernel.stores)
    if pieces > 1 or crew.schedule.bundle:
        return _in_pieces(asked, crew, work, [bool(step.accumulators) for step in crew.passes])
    if crew.lanes == 1 and not asked.as_written:  # threads come in blocks, which may be few
        blocks = math.ceil(work.teams * LANES / schedule.threads)
        found = launched(asked, work, min(blocks, asked.target.sm_count))
        return replace(found, us=max(found.us, lifetime.drawn_us(blocks, found.dram_bytes)))
    if crew.lanes != LANES:
        found = launched(asked, work)
        few = crew.schedule.team == "bundle" and not asked.as_written
        return _by_few(found, crew.teams, asked.target) if few else found
    found = launched(asked, replace(work, place_ns=FLAT_NS))
    return replace(found, us=lifetime.until_last_warp(found.us, schedule.threads))


def _by_few(found: Estimate, blocks: int, target: Target) -> Estimate:
    """At most what so many multiprocessors draw from memory."""
    drawn_us = 1e-3 * found.dram_bytes / min(blocks, target.sm_count) / _DRAWN_BY_BUNDLES
    return replace(found, us=max(found.us, drawn_us))


def _crew(asked: Asked, kernel: Kernel, schedule: Schedule, pieces: int) -> Crew:
    space = RowSpace(asked.program.pool, kernel)
    passes = passes_of(space, kernel, schedule.single_pass)
    rows, lanes = asked.at(space.rows), lanes_of(schedule)
    abreast = bundle_of(rows, schedule.width, schedule.bundle_lanes) if schedule.bundle else 1
    apart = False
    if schedule.team == "bundle":
        shape = scheduled_shape(space, kernel, asked.schedule)
        abreast = reach.rows_abreast(schedule, shape, asked.sizes)
        apart = lie_at_odd_places(shape, [asked.sizes])
    if shares_warps(schedule):
        abreast = LANES // lanes
    if abreast > 1:
        lanes = LANES if shares_warps(schedule) else schedule.threads
        rows = math.ceil(rows / abreast)
    teams = rows * pieces if lanes > 1 else math.ceil(rows * pieces / LANES)
    keeps = schedule.cache != "reread"
    together = pieces == 1 and not schedule.prefetch
    stores = tuple(kernel.stores)
    waits, slots = _waiting(space.pool, stores, schedule.single_pass, together) if keeps else (frozenset(), 0)
    held = 1.0
    # A cluster's blocks, and those that take rows in turns, keep all of their pieces.
    if keeps and pieces > 1 and schedule.join_grid and not schedule.prefetch:
        held = share_held(schedule.threads, slots, asked.at(space.columns) / pieces)
    return Crew(space, tuple(passes), schedule, teams, lanes, pieces, abreast, waits, slots, held, apart)


@lru_cache(maxsize=1024)
def _waiting(
    pool: Pool, stores: tuple[Store, ...], single_pass: bool, together: bool
) -> tuple[frozenset[int], int]:
    """Loads that wait on the chip, by serial, and slots for these: a search asks again for every vector."""
    kernel = Kernel(list(stores))
    space = RowSpace(pool, kernel)
    waiting = waiting_loads(space, passes_of(space, kernel, single_pass), together)
    return frozenset(load.serial for wait in waiting for load in (wait.load, *wait.taken_in)), len(waiting)


def _work(asked: Asked, crew: Crew, stores: Sequence[Store]) -> Work:
    """The launch of a crew: its walks, and how many of its teams a multiprocessor has room for."""
    schedule, target = crew.schedule, asked.target
    walks = [walk_of(asked, crew, number) for number in range(len(crew.passes))]
    if not asked.as_written:
        of_rows = row_instructions(asked, crew, [store.value for store in stores if store.level == "row"])
        added = [by * crew.threads for by in of_rows]
        walks = [
            replace(one, instructions=one.instructions + by) for one, by in zip(walks, added, strict=True)
        ]
    kept = crew.held * crew.slots * asked.at(crew.space.columns) / crew.pieces
    kept *= crew.together if schedule.team in ("bundle", "warp") else 1
    if more := spilled(target, schedule, kept / crew.lanes):
        walks[-1] = replace(walks[-1], instructions=walks[-1].instructions + more * crew.threads)
    rest = asked.stored(stores) - sum(asked.stored(step.stores) for step in crew.passes)
    walks[-1] = replace(walks[-1], stored_bytes=walks[-1].stored_bytes + rest / crew.teams)
    mine = kept / crew.lanes if schedule.cache == "registers" else 0.0
    if schedule.cache == "shared" and not asked.as_written and _any_peeled(asked, crew):
        mine = _PEELED
    mine += 0.0 if asked.as_written else _summed(asked, crew)
    shared = 4 * kept if schedule.cache == "shared" else 0.0
    blocks = resident(
        target, asked.schedule, schedule.threads, mine, shared * schedule.threads / crew.threads
    )
    beside = blocks * schedule.threads // crew.threads
    if crew.pieces > 1 or schedule.bundle:
        return Work(crew.teams, crew.threads, beside, tuple(walks), 0.0, 0.0)
    again = max(walk.again_bytes for walk in walks) if crew.keeps else walks[0].fresh_bytes
    left = target.shared_bytes_per_sm - beside * shared
    return Work(crew.teams, crew.threads, beside, tuple(walks), again, left)


# ------------------------------------------------------------------------------------ rows in pieces


def _in_pieces(asked: Asked, crew: Crew, work: Work, makes: list[bool]) -> Estimate:
    """Blocks of a row meet in a cluster, in a launch that all of them fit, or in the next launch."""
    schedule = crew.schedule
    own = crew.lanes // crew.together * asked.width(crew.space.rows) if crew.together > 1 else crew.lanes
    gathered_ns = _PARTIALS_NS * math.ceil(crew.pieces / own / _GATHERED)
    if crew.together > 1 and not asked.as_written:
        meets_ns = _in_banks_ns(asked, crew)
        walks = [replace(one, join_ns=one.join_ns + meets_ns * bool(one.join_ns)) for one in work.walks]
        work = replace(work, walks=tuple(walks))
        left = 4.0 * crew.pieces * crew.together * _members(crew)
        gathered_ns += left / lifetime.SM_BYTES_PER_NS
    if crew.pieces == 1:  # nobody waits for others: what a block has left it reads again itself
        walks = [replace(one, join_ns=one.join_ns + gathered_ns) for one in work.walks]
        return launched(asked, replace(work, walks=tuple(walks)))
    if not crew.keeps:
        return _split(asked, work, makes, gathered_ns)
    if schedule.join_grid and not schedule.prefetch:
        found = launched(asked, work)
        met_us = _meeting_us(asked, work, crew.pieces, gathered_ns)
        return replace(found, us=found.us + sum(makes) * met_us)
    met_ns = _CLUSTER_NS
    if schedule.join_grid:
        met_ns = 1e3 * asked.target.meeting_of(crew.pieces) + gathered_ns
    walks = [replace(one, join_ns=one.join_ns + met_ns * bool(one.join_ns)) for one in work.walks]
    work = replace(work, walks=tuple(walks))
    if schedule.prefetch:  # the next row on its way is like a block beside; nobody comes and goes
        work = replace(work, resident=2 * work.resident, place_ns=0.0)
    room = 0 if schedule.join_grid else in_clusters(asked.target, asked.schedule.cluster)
    return launched(asked, work, room, stays=schedule.prefetch)


def _any_peeled(asked: Asked, crew: Crew) -> bool:
    """True where rows begin between borders of vectors, in some pass."""
    columns = asked.at(crew.space.columns)
    return any(is_peeled(crew.schedule, crew.space, step, columns) for step in crew.passes)


def _members(crew: Crew) -> int:
    """Numbers of four bytes that a piece leaves for a result, in the pass that leaves most."""
    counts = {"welford": 3, "argmax": 2, "argmin": 2, **{kind: len(names) for kind, names in MEMBERS.items()}}
    return max(sum(counts.get(one.kind, 1) for one in step.accumulators) for step in crew.passes)


def _summed(asked: Asked, crew: Crew) -> float:
    """Registers of a thread for what its columns come to, where it has several side by side."""
    if crew.together == 1 or not crew.schedule.bundle:
        return 0.0
    moments = any(one.kind in MOMENTS for step in crew.passes for one in step.accumulators)
    return float(asked.width(crew.space.rows) * (_members(crew) + _AT_ONCE * moments))


def _in_banks_ns(asked: Asked, crew: Crew) -> float:
    """Until the groups of a block are joined: neighbours of a thread that are written side by side meet."""
    width = asked.width(crew.space.rows)
    meeting = 1 if crew.schedule.bundle_lanes else width
    return crew.lanes / LANES * width * _members(crew) * meeting / lifetime.CLOCK_GHZ


def _split(asked: Asked, work: Work, makes: list[bool], gathered_ns: float) -> Estimate:
    """Every pass is a launch of its own; what one read the next finds in L2 if it is small."""
    schedule, target = asked.schedule, asked.target
    total = NOTHING
    walks = list(work.walks)
    last = schedule.join_last and all(makes)
    if makes[-1] and not last:
        walks.append(Walk())
    joined = 0.0
    gathered_ns += 0.0 if asked.as_written else _JOINED_NS
    for one in walks:
        small = work.teams * one.again_bytes <= 0.8 * target.l2_bytes
        found = {"near_bytes" if small else "fresh_bytes": one.again_bytes, "again_bytes": 0.0}
        gathered = replace(one, join_ns=one.join_ns + joined, **found)
        joined = one.join_ns + gathered_ns
        walked = launched(asked, replace(work, walks=(gathered,)))
        if work.teams * gathered.stored_bytes >= _FAR and not asked.as_written:
            walked = replace(walked, us=walked.us * _DRIFTING)
        total = one_then(total, walked)
    if last:
        heard_us = HEARD_US if schedule.join_told and schedule.team == "block" else 0.0
        total = replace(total, us=total.us + _ARRIVAL_US + joined * 1e-3 - heard_us)
    if schedule.stream_stores and any(one.stored_bytes and one.again_bytes for one in walks):
        total = replace(total, us=total.us * _PAST_L2)
    return total


def _meeting_us(asked: Asked, work: Work, pieces: int, gathered_ns: float) -> float:
    """Until every block has joined what all of its row have left; waiting for words is reading them."""
    join_ns = work.walks[0].join_ns
    if asked.schedule.join_words:
        counted_us = _COUNTED * asked.target.arrival_us * work.teams
        return _TOLD_US + counted_us + (_ASKED_NS * work.teams * pieces + join_ns) * 1e-3
    return asked.target.meeting_of(work.teams) + (join_ns + gathered_ns) * 1e-3
