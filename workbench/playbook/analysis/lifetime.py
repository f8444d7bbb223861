"""The time of one launch from the life of a team: who waits for what, alone and beside others.

Owns the arithmetic of a multiprocessor on which a few teams take turns at memory and at the arithmetic
units. Knows bytes, instructions and trips; never an operation or a problem.

A team is what computes together: a block, or a warp where rows are short. Alone, its passes follow one
another, because a barrier stands between them, and while it computes nobody uses the memory. Several on
one multiprocessor fill each other's pauses: a closed queue of so many customers (mean value analysis;
Reiser and Lavenberg, 1980) with one busiest station. One large block a multiprocessor therefore pays for
memory and arithmetic in turn, and many small ones only for the slower of the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from workbench.model import Target

CLOCK_GHZ = 1.7
LANES = 128.0
"""Instructions a multiprocessor issues a clock, over all threads: four schedulers of 32."""
SM_BYTES_PER_NS = 64 * CLOCK_GHZ
"""What one multiprocessor takes from L2."""
DRAWN_BYTES_PER_NS = 32.0
"""The same from DRAM, however many loads are on their way. Inferred: 48 blocks whose threads have 56 loads on
their way take 52 of the 104.5 us in which an H100 reads 77 MB, and then reads and writes as much."""
L2_OVER_DRAM = 1.85
L2_BESIDE = 0.6
"""Of the time that L2 alone would take, what traffic with L2 costs beside DRAM's: both share the way."""
L2_USABLE, L1_USABLE = 0.8, 0.4
COPY_SHARE = 0.987
"""Of the bandwidth of a plain copy: the most that a kernel was seen to reach (2.99 of 3.03 TB/s)."""
DRAM_TRIP, L2_TRIP, L1_TRIP = 0.75, 0.42, 0.05
"""Way there and back over the latency of a busy DRAM."""
BLOCK_NS = 300.0
"""A team is given its place, reads its parameters; its last store leaves."""
FLAT_NS = 700.0
"""The same of a warp whose threads make one pack each: it also waits for the others of its block before that
makes room. GELU of one element a thread takes 153 us on an H100 where four a thread take 135."""
_LAST_WARP, _USUAL = 0.005, 256
"""Of the time, for each doubling of the threads of a block whose warps have work of their own: its place
is free when the last warp has ended. An H200 gains 0 to 1.8% from 256 to 128, up to 1.1% from 128 to 64. Of
elements one by one it gains 1.0% from 256 to 128 for a ReLU of 4096x393216 in float32, and 2.1% from 1024 to
256; 1.1 and 5.6% for a softplus."""
_STARTED_NS, _BESIDE = 0.6, 8
"""Between the starts of two blocks, of the whole card: l2_norm of 524,288 blocks of 64
threads takes 318.2 us on an H200 (253 with half as many), log_softmax of 32,768 blocks 21.6 (18.2). The power
says how little is left of that where blocks are few: 262,144 starts beside 253 us are not to be seen."""
START_US = 0.6
"""Of the first launch of a call, beyond what its blocks do."""


@dataclass(frozen=True)
class Walk:
    """One pass of a team over its columns; bytes and instructions are of the whole team."""

    fresh_bytes: float = 0.0
    """Read for the first time."""
    stored_bytes: float = 0.0
    """Written: nobody waits for them."""
    again_bytes: float = 0.0
    """Read by an earlier pass already."""
    near_bytes: float = 0.0
    """Read for the first time, of what an earlier launch left in L2."""
    instructions: float = 0.0
    """Of all threads together."""
    lines: float = 0.0
    """Of 128 bytes, each time a warp asks L1 for one: served one a clock."""
    chain_cycles: float = 0.0
    """One thread's instructions that wait for one another, from its first column to its last."""
    trips: float = 0.0
    """Times that a thread waits for memory; 0 where the row is on the chip."""
    join_ns: float = 0.0
    """Until every thread knows what all of them found."""


@dataclass(frozen=True)
class Work:
    """A launch: equal teams."""

    teams: int
    threads: int
    """Of a team."""
    resident: int
    """Teams that one multiprocessor holds."""
    walks: tuple[Walk, ...]
    row_bytes: float
    """That a team reads again: what L1 and L2 have to hold for it."""
    l1_bytes: float
    """Of one multiprocessor, left for its teams together."""
    place_ns: float = BLOCK_NS
    """Of a team's life, around what it does."""
    blocks: float = 0.0
    """That are started one after the other; 0 where they are so few that it takes no time."""

    def in_blocks_of(self, threads: int) -> Work:
        """The same with blocks of so many threads, each started when there is room for it."""
        return replace(self, blocks=self.teams * self.threads / threads)


@dataclass(frozen=True)
class LaunchTime:
    """Microseconds without the launch itself."""

    us: float
    dram_bytes: float
    flight_share: float
    """Part of the bandwidth that is drawn."""


def launch_time(target: Target, work: Work) -> LaunchTime:
    """Model one launch."""
    turns = math.ceil(work.teams / target.sm_count)
    beside = max(1, min(work.resident, turns))
    active = min(work.teams, target.sm_count)
    in_l1, in_l2 = _found(target, work, beside, active)
    dram_ns = COPY_SHARE * target.dram_bytes_per_s * 1e-9 / active
    rate = min(dram_ns, SM_BYTES_PER_NS)
    l2_rate = min(L2_OVER_DRAM * dram_ns, SM_BYTES_PER_NS)
    memory = issue = life = dram = 0.0
    for walk in work.walks:
        lost = walk.again_bytes * (1 - in_l1) * (1 - in_l2)
        near = walk.near_bytes + walk.again_bytes * (1 - in_l1) * in_l2
        moved = walk.fresh_bytes + walk.stored_bytes + lost
        dram += moved * work.teams
        mine = moved / rate + L2_BESIDE * near / l2_rate
        issued = max(walk.instructions / LANES, walk.lines) / CLOCK_GHZ
        memory, issue = memory + mine, issue + issued
        trip_ns = _way(walk, in_l1, in_l2) * target.dram_latency_ns
        # What a thread waits for is hidden by bytes that other threads wait for, except the first time.
        waits = max(walk.trips * trip_ns, mine + min(walk.trips, 1.0) * trip_ns)
        own = max(issued, walk.chain_cycles / CLOCK_GHZ)
        life += _overlapped(waits, own) + walk.join_ns
    life += work.place_ns
    busiest = max(memory, issue)
    each = 1 / _throughput(busiest, max(life - busiest, 0.0), beside)
    ns = max(turns * each, life)
    if work.blocks:
        ns *= (1 + (_STARTED_NS * work.blocks / ns) ** _BESIDE) ** (1 / _BESIDE)
    return LaunchTime(ns * 1e-3, dram, min(1.0, memory * turns / ns))


_AT_HAND = 600.0
"""Instructions that come with a launch: what all that was measured has in its start (a guess)."""
_FETCHED_NS = 10.0
"""Of one more, sixteen bytes. Roughly: twenty steps of a vehicle for each of 4096 ways to steer, without a
loop, took about 118 us of an H200 as some 10,000 instructions, 51 as 4000 and 20 as 2500 (2026-11-30, from
the log of a search, less what the other kernels of its plans take)."""


def until_last_warp(us: float, threads: int) -> float:
    """Time of a launch whose blocks have so many threads, and whose warps have nothing in common."""
    return us * (1 + _LAST_WARP * math.log2(threads / _USUAL))


def crowded_us(target: Target, blocks: int, moved: float) -> float:
    """What bytes wait for one another where blocks are too few for the card: each has one way to L2."""
    return 1e-3 * moved / blocks / SM_BYTES_PER_NS if blocks < target.sm_count else 0.0


def fetched_us(instructions: float) -> float:
    """What a thread waits for its code, of which it has so many instructions one after the other.

    Of a long loop that is written out each multiprocessor fetches all, once, and nothing is there to hide it.
    """
    return 1e-3 * _FETCHED_NS * max(0.0, instructions - _AT_HAND)


def drawn_us(blocks: int, moved: float) -> float:
    """Least time in which so few multiprocessors, a block each, draw bytes from DRAM."""
    return 1e-3 * moved / blocks / DRAWN_BYTES_PER_NS


def _overlapped(*parts: float) -> float:
    """What goes on at the same time: the longest counts fully, the others by how close they come."""
    longest = max(parts)
    return longest * math.sqrt(sum((part / longest) ** 2 for part in parts)) if longest else 0.0


def _way(walk: Walk, in_l1: float, in_l2: float) -> float:
    """How far a thread's loads go, over a trip to a busy DRAM."""
    if walk.fresh_bytes:
        return DRAM_TRIP
    beyond = in_l2 * L2_TRIP + (1 - in_l2) * DRAM_TRIP
    return beyond if walk.near_bytes else in_l1 * L1_TRIP + (1 - in_l1) * beyond


def _found(target: Target, work: Work, beside: int, active: int) -> tuple[float, float]:
    """Shares of what is read again that L1, and beyond it L2, still have.

    A cache that is swept in a circle holds everything while it is large enough, and soon nothing.
    """
    own = beside * work.row_bytes
    return _held(own, L1_USABLE * work.l1_bytes), _held(active * own, L2_USABLE * target.l2_bytes)


def _held(footprint: float, usable: float) -> float:
    return max(0.0, min(1.0, 2 - footprint / max(usable, 1.0)))


def _throughput(station: float, pause: float, customers: int) -> float:
    """Lives a nanosecond, of teams that each need ``station`` ns of the one place and ``pause`` elsewhere."""
    waiting = rate = 0.0
    for number in range(1, customers + 1):
        stay = station * (1 + waiting)
        rate = number / max(pause + stay, 1e-9)
        waiting = rate * stay
    return rate
