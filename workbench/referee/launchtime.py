"""A model of the time of one kernel launch: least-cost flow through DRAM, L2 and multiprocessors.

Owns the arithmetic and its constants. It is a model: nothing here is a measurement, and every time
that comes out of it is labelled so. docs/notes/2026-11-21-model-of-time.md says how far it is off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workbench.model import Target
from workbench.referee.occupancy import WARP, resident_blocks

BYTES_IN_FLIGHT = 32.0
"""Bytes of one thread that are under way at once: the compiler unrolls narrow loads, wide ones less."""
UNLOADED = 0.75
"""Latency of a DRAM that is not yet full over that of a busy one, which its bandwidth term is for."""
L2_NS = 300.0
L1_NS = 40.0
_SECTOR = 32
"""Bytes that L2 delivers at least for one request of a warp."""
BLOCK_NS = 300.0
"""A block is given its place, reads its parameters, works out its indices; its last store leaves."""
BARRIER_NS = 40.0
CYCLES_AN_INSTRUCTION = 5.0
"""One warp's own pace: each instruction waits for the result before it."""
CYCLES_A_WARP_OPERATION = 80.0
"""A shuffle and what joins its result, one warp alone."""
INSTRUCTIONS_A_REQUEST = 4.0
"""The load or store itself, its address, its share of the loop."""
INSTRUCTIONS_A_WARP = 30.0
"""Indices, loop set-up and the way out."""
INSTRUCTIONS_A_BARRIER = 20.0
INSTRUCTIONS_A_WARP_OPERATION = 6.0
CLOCK_HZ = 1.7e9
L2_OVER_DRAM = 1.85
"""L2 to multiprocessor bandwidth over DRAM copy bandwidth (about 5.6 TB/s on an H100)."""
L2_USABLE = 0.8
"""Part of L2 that holds what a block will read again; the rest is passing through."""
L1_USABLE = 0.75
L2_BESIDE = 0.6
"""Of the time that L2 alone would take for what is read again, what it costs beside DRAM's: both share the
way. Copy bandwidth, which DRAM's time is reckoned with, holds the first trip through L2 already."""
L2_JOINED_BYTES_PER_S = 3.05e12
"""What L2 adds where it lies: 16 bytes a clock in each of 112 slices. An assumption, fitted to one number:
torch.compile adds 131,072 rows of 512 bytes to 16,384, clearing them included, in 27.6 us on an H200."""
SM_BYTES_PER_S = 109e9
"""One multiprocessor takes 64 bytes a clock from L2, at 1.7 GHz."""
NORM = 2.5
"""Resources overlap: the slowest counts fully, the others by how close they come to it."""

Bound = Literal["memory", "latency", "compute", "launch", "library"]


@dataclass(frozen=True)
class Shape:
    """What a launch asks of a multiprocessor."""

    blocks: int
    threads: int
    registers: int = 32
    shared_bytes: int = 0
    spill_stored: int = 0
    """Bytes of a thread that no register was left for, as ptxas reports them: written to local memory."""
    spill_loaded: int = 0
    """Bytes of a thread read back from there. Neighbouring threads' lie side by side: no byte moves twice."""

    @property
    def spilled(self) -> float:
        """Bytes of all threads, there and back."""
        return float(self.blocks * self.threads * (self.spill_stored + self.spill_loaded))


@dataclass(frozen=True)
class Traffic:
    """What a launch asks of memory, in bytes."""

    unique: float
    """Every element once."""
    requested: float
    """Sectors that left the multiprocessors times 32, re-reads included; at least ``unique``."""
    width: float = 4.0
    """Bytes a thread moves with one request."""
    touched: float = 0.0
    """Bytes of sectors that come for one request of a thread: more than ``width`` where lanes lie apart."""
    barriers: float = 0.0
    """Per block."""
    flops: float = 0.0
    """As many as take as long on float32 units at their peak."""
    on_units: bool = False
    """True where tensor cores do the products."""
    stored: float = 0.0
    """Bytes of ``unique`` that are written: nobody waits for them."""
    instructions: float = 0.0
    """Of all threads together, those for memory requests not counted."""
    warp_operations: float = 0.0
    """Shuffles, votes and the like, per block."""
    joined: float = 0.0
    """Bytes of sectors that atomics ask L2 to change."""
    in_flight: float = BYTES_IN_FLIGHT
    """Bytes of one thread that are under way at once."""


@dataclass(frozen=True)
class LaunchTime:
    """Microseconds without the launch itself, and what they are spent on."""

    us: float
    bound: Bound
    dram_bytes: float
    resident: int
    """Blocks a multiprocessor holds at once."""


def launch_time(target: Target, shape: Shape, traffic: Traffic) -> LaunchTime:
    """Model one launch."""
    resident = max(resident_blocks(target, shape.threads, shape.registers, shape.shared_bytes), 1)
    most = -(-shape.blocks // target.sm_count)
    live = min(resident, most)
    dram, l2, is_kept = _levels(target, shape, traffic, live)
    own = _own(shape, traffic)
    turns = max(most / resident, 1.0)
    dram_ns = UNLOADED * target.dram_latency_ns
    again_ns = L1_NS if is_kept else L2_NS if dram < l2 else dram_ns
    parts: dict[Bound, float] = {
        "memory": max(
            (dram + L2_BESIDE / L2_OVER_DRAM * max(l2 - dram, 0.0)) / target.dram_bytes_per_s,
            traffic.joined / L2_JOINED_BYTES_PER_S,
        ),
        "latency": max(
            turns * _life_s(shape, traffic, own, (dram_ns, again_ns)),
            max(l2 - traffic.stored, 0.0) / max(shape.blocks, 1) * most / SM_BYTES_PER_S,
        ),
        "compute": _joined(
            traffic.flops / target.fp32_flops_per_s * max(1.0, target.sm_count / max(shape.blocks, 1)),
            most * _issued(shape, traffic, own) / (4 * CLOCK_HZ),
        ),
    }
    slowest = max(parts, key=lambda name: parts[name])
    return LaunchTime(_joined(*parts.values()) * 1e6, slowest, dram, resident)


def _joined(*seconds: float) -> float:
    largest = max(seconds)
    if largest <= 0:
        return 0.0
    return float(largest * sum((s / largest) ** NORM for s in seconds) ** (1 / NORM))


def _levels(target: Target, shape: Shape, traffic: Traffic, live: int) -> tuple[float, float, bool]:
    """Bytes that reach DRAM, bytes that cross from L2, and whether re-reads are found in L1."""
    again = max(traffic.requested - traffic.unique, 0.0)
    per_block = max(traffic.unique - traffic.stored, 0.0) / max(shape.blocks, 1)
    l1_bytes = L1_USABLE * max(target.shared_bytes_per_sm - live * shape.shared_bytes, 0)
    is_kept = live * per_block <= l1_bytes  # a row that does not fit is evicted before it comes again
    beyond = 0.0 if is_kept else again
    spilled, spilt_a_block = _beyond_l1(shape, live, l1_bytes)
    footprint = min(shape.blocks, target.sm_count * live) * (per_block + spilt_a_block)
    in_l2 = min(1.0, L2_USABLE * target.l2_bytes / max(footprint, 1.0))
    beyond += spilled
    return traffic.unique + beyond * (1 - in_l2), traffic.unique + beyond, is_kept


def _beyond_l1(shape: Shape, live: int, l1_bytes: float) -> tuple[float, float]:
    """Of what is spilled, all bytes that cross to L2 and those of one block that lie there."""
    a_block = float(shape.threads * shape.spill_stored)
    if not a_block:
        return 0.0, 0.0
    lost = max(0.0, 1.0 - l1_bytes / (live * a_block))
    return lost * shape.spilled, lost * a_block


def _own(shape: Shape, traffic: Traffic) -> float:
    """Instructions of one thread for its elements, those for memory included."""
    requests = traffic.requested / max(traffic.width, traffic.touched, 1.0)
    mine = (traffic.instructions + INSTRUCTIONS_A_REQUEST * requests) / max(shape.blocks * shape.threads, 1)
    return mine + (shape.spill_stored + shape.spill_loaded) / 4


def _life_s(shape: Shape, traffic: Traffic, own: float, trips_ns: tuple[float, float]) -> float:
    """Seconds of a block that nobody gets in the way of, all it does in turn.

    ``trips_ns``: a load's way there and back the first time and when it is asked for again.
    """
    threads = max(shape.blocks * shape.threads, 1)
    loaded = max(traffic.unique - traffic.stored, 1.0)
    waiting = max(traffic.width, traffic.in_flight)
    first = max(loaded / threads / waiting, 1.0)
    again = max(traffic.requested - traffic.unique - traffic.joined, 0.0)  # no atomic is waited for
    # A warp's request takes a sector at least, which tells of few numbers that all threads read.
    trips = min(again / loaded * first, again / _SECTOR / (threads / WARP))
    warps = -(-shape.threads // WARP)
    cycles = CYCLES_AN_INSTRUCTION * own + CYCLES_A_WARP_OPERATION * traffic.warp_operations / warps
    back = shape.spill_loaded / BYTES_IN_FLIGHT * trips_ns[1]
    ns = BLOCK_NS + first * trips_ns[0] + trips * trips_ns[1] + back + BARRIER_NS * traffic.barriers
    return ns * 1e-9 + cycles / CLOCK_HZ


def _issued(shape: Shape, traffic: Traffic, own: float) -> float:
    """Instructions all warps of a block issue."""
    warps = -(-shape.threads // WARP)
    a_warp = own + INSTRUCTIONS_A_WARP + INSTRUCTIONS_A_BARRIER * traffic.barriers
    return warps * a_warp + INSTRUCTIONS_A_WARP_OPERATION * traffic.warp_operations
