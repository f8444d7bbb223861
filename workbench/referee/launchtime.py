"""A model of the time of one kernel launch: least-cost flow through DRAM, L2 and multiprocessors.

Owns the arithmetic and its constants. It is a model: nothing here is a measurement, and every time
that comes out of it is labelled so. docs/notes/2026-11-21-model-of-time.md says how far it is off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workbench.model import Target
from workbench.referee.occupancy import resident_blocks

LOADS_IN_FLIGHT = 2.0
"""Independent requests of one thread that wait at once, unless its whole work is less."""
L2_OVER_DRAM = 1.85
"""L2 to multiprocessor bandwidth over DRAM copy bandwidth (about 5.6 TB/s on an H100)."""
L2_USABLE = 0.8
"""Part of L2 that holds what a block will read again; the rest is passing through."""
L1_USABLE = 0.75
SM_BYTES_PER_S = 109e9
"""One multiprocessor takes 64 bytes a clock from L2, at 1.7 GHz."""
L1_LATENCY_NS = 40.0
BARRIER_NS = 25.0
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
    latency_s = target.dram_latency_ns * 1e-9
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
        "compute": traffic.flops / target.fp32_flops_per_s * _idle(shape, target),
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
    per_block = traffic.unique / max(shape.blocks, 1)
    l1_bytes = L1_USABLE * max(target.shared_bytes_per_sm - live * shape.shared_bytes, 0)
    is_kept = live * per_block <= l1_bytes  # a row that does not fit is evicted before it comes again
    beyond = 0.0 if is_kept else again
    footprint = min(shape.blocks, target.sm_count * live) * per_block
    in_l2 = min(1.0, L2_USABLE * target.l2_bytes / max(footprint, 1.0))
    return traffic.unique + beyond * (1 - in_l2), traffic.unique + beyond, is_kept


def _rate(shape: Shape, traffic: Traffic, live: int, latency_s: float) -> float:
    """Bytes a second one multiprocessor can pull, by Little's law."""
    per_thread = traffic.requested / max(shape.blocks * shape.threads, 1)
    waiting = min(traffic.width * LOADS_IN_FLIGHT, max(per_thread, 1.0))
    return min(live * shape.threads * waiting / latency_s, SM_BYTES_PER_S)


def _idle(shape: Shape, target: Target) -> float:
    """How much slower arithmetic gets when there are fewer blocks than multiprocessors."""
    return max(1.0, target.sm_count / max(shape.blocks, 1))
