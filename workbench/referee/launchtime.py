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
UNLOADED = 0.5
"""Latency of an idle DRAM over that of a busy one; the busy one is what its bandwidth term is for."""
INSTRUCTIONS_A_REQUEST = 6.0
"""The load or store itself, its address, its share of the loop."""
INSTRUCTIONS_A_WARP = 50.0
"""Indices, loop set-up and the way out."""
INSTRUCTIONS_A_BARRIER = 20.0
INSTRUCTIONS_A_WARP_OPERATION = 5.0
WARPS_TO_HIDE = 24.0
"""Warps a multiprocessor needs to issue at full rate when each waits for its own last result."""
CLOCK_HZ = 1.7e9
L2_OVER_DRAM = 1.85
"""L2 to multiprocessor bandwidth over DRAM copy bandwidth (about 5.6 TB/s on an H100)."""
L2_USABLE = 0.8
"""Part of L2 that holds what a block will read again; the rest is passing through."""
L1_USABLE = 0.5
SM_BYTES_PER_S = 109e9
"""One multiprocessor takes 64 bytes a clock from L2, at 1.7 GHz."""
L1_LATENCY_NS = 40.0
BARRIER_NS = 40.0
NORM = 3.0
"""Resources overlap: the slowest counts fully, the others by how close they come to it."""

Bound = Literal["memory", "latency", "compute", "launch", "library"]


@dataclass(frozen=True)
class Shape:
    """What a launch asks of a multiprocessor."""

    blocks: int
    threads: int
    registers: int = 32
    shared_bytes: int = 0


@dataclass(frozen=True)
class Traffic:
    """What a launch asks of memory, in bytes."""

    unique: float
    """Every element once."""
    requested: float
    """Sectors that left the multiprocessors times 32, re-reads included; at least ``unique``."""
    width: float = 4.0
    """Bytes a thread moves with one request."""
    barriers: float = 0.0
    """Per block."""
    flops: float = 0.0
    stored: float = 0.0
    """Bytes of ``unique`` that are written: nobody waits for them."""
    instructions: float = 0.0
    """Of all threads together, those for memory requests not counted."""
    warp_operations: float = 0.0
    """Shuffles, votes and the like, per block."""
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
    latency_s = UNLOADED * target.dram_latency_ns * 1e-9
    again_s = L1_LATENCY_NS * 1e-9 if is_kept else latency_s
    waves = -(-most // resident)
    loaded = max(traffic.unique - traffic.stored, 1.0)
    passes = max(int((traffic.requested - traffic.stored) / loaded + 0.25), 1)
    parts: dict[Bound, float] = {
        "memory": _joined(dram / target.dram_bytes_per_s, l2 / (L2_OVER_DRAM * target.dram_bytes_per_s)),
        "latency": max(
            max(l2 - traffic.stored, 0.0)
            / max(shape.blocks, 1)
            * most
            / _rate(shape, traffic, live, latency_s),
            waves * (latency_s + (passes - 1) * again_s + traffic.barriers * BARRIER_NS * 1e-9),
        ),
        "compute": _joined(
            traffic.flops / target.fp32_flops_per_s * _idle(shape, target),
            _issue_s(target, shape, traffic, live),
        ),
    }
    slowest = max(parts, key=lambda name: parts[name])
    # One block alone on its multiprocessor loads, computes and stores in turn: nothing overlaps.
    norm = min(NORM, float(live)) if traffic.barriers and shape.blocks > target.sm_count else NORM
    return LaunchTime(_joined(*parts.values(), norm=norm) * 1e6, slowest, dram, resident)


def _joined(*seconds: float, norm: float = NORM) -> float:
    largest = max(seconds)
    if largest <= 0:
        return 0.0
    return float(largest * sum((s / largest) ** norm for s in seconds) ** (1 / norm))


def _levels(target: Target, shape: Shape, traffic: Traffic, live: int) -> tuple[float, float, bool]:
    """Bytes that reach DRAM, bytes that cross from L2, and whether re-reads are found in L1."""
    again = max(traffic.requested - traffic.unique, 0.0)
    per_block = traffic.unique / max(shape.blocks, 1)
    l1_bytes = L1_USABLE * max(target.shared_bytes_per_sm - live * shape.shared_bytes, 0)
    read = max(traffic.unique - traffic.stored, 0.0) / max(shape.blocks, 1)
    is_kept = live * read <= l1_bytes  # a row that does not fit is evicted before it comes again
    beyond = 0.0 if is_kept else again
    footprint = min(shape.blocks, target.sm_count * live) * per_block
    in_l2 = min(1.0, L2_USABLE * target.l2_bytes / max(footprint, 1.0))
    return traffic.unique + beyond * (1 - in_l2), traffic.unique + beyond, is_kept


def _rate(shape: Shape, traffic: Traffic, live: int, latency_s: float) -> float:
    """Bytes a second one multiprocessor can pull, by Little's law."""
    per_thread = traffic.requested / max(shape.blocks * shape.threads, 1)
    waiting = min(max(traffic.width, traffic.in_flight), max(per_thread, 1.0))
    return min(live * shape.threads * waiting / latency_s, SM_BYTES_PER_S)


def _issue_s(target: Target, shape: Shape, traffic: Traffic, live: int) -> float:
    """Seconds to issue all instructions: four warps a clock where enough warps take turns."""
    warps = -(-shape.threads // WARP)
    requests = traffic.requested / max(traffic.width, 1.0)
    threads = (traffic.instructions + INSTRUCTIONS_A_REQUEST * requests) / WARP
    a_warp = INSTRUCTIONS_A_WARP + INSTRUCTIONS_A_BARRIER * traffic.barriers
    a_block = warps * a_warp + INSTRUCTIONS_A_WARP_OPERATION * traffic.warp_operations
    busy = min(1.0, live * warps / WARPS_TO_HIDE)
    rate = 4 * min(shape.blocks, target.sm_count) * CLOCK_HZ * busy
    return (threads + shape.blocks * a_block) / max(rate, 1.0)


def _idle(shape: Shape, target: Target) -> float:
    """How much slower arithmetic gets when there are fewer blocks than multiprocessors."""
    return max(1.0, target.sm_count / max(shape.blocks, 1))
