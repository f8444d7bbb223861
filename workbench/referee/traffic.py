"""What a launch of a declared case asks of memory, from what the emulator counted at a small one.

Owns the scaling: sectors over the bytes of the launch's arguments, seen at the counted case that is
most alike, times those bytes at the declared case.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from workbench.emulator.values import LaunchCounts
from workbench.model import DTYPE_BYTES, AccessSite
from workbench.plan.overlap import distinct_elements
from workbench.plan.steps import BufferArg, Launch, Plan
from workbench.referee.launchtime import Traffic

SECTOR = 32
DEFAULT_WIDTH = 4.0


@dataclass(frozen=True)
class Observation:
    """One counted run: its plan and what each of its launches did."""

    plan: Plan
    launches: tuple[LaunchCounts, ...]
    sites: tuple[AccessSite, ...]


def argument_bytes(plan: Plan, launch: Launch) -> int:
    """Bytes of a launch's tensor arguments, each distinct element once."""
    names = dict.fromkeys(a.buffer for a in launch.args if isinstance(a, BufferArg))
    metas = (plan.meta_of(name) for name in names)
    return sum(distinct_elements(meta) * DTYPE_BYTES[meta.dtype] for meta in metas)


def traffic_of(plan: Plan, launch: Launch, seen: Iterable[Observation]) -> tuple[Traffic, bool]:
    """Traffic of a launch, and whether it was counted rather than assumed ideal."""
    touched = float(argument_bytes(plan, launch))
    best = _most_alike(launch, seen)
    if best is None:
        return Traffic(touched, touched, DEFAULT_WIDTH), False
    observation, step, counts = best
    counted = max(argument_bytes(observation.plan, step), 1)
    joined = _joined(observation, counts)
    requested = _scaled(launch, step, touched, counted, counts.sectors * SECTOR)
    return (
        Traffic(
            unique=min(touched, requested),
            requested=requested,
            width=_width(observation.sites),
            touched=_touched(observation.sites),
            barriers=counts.barriers / max(counts.blocks, 1),
            warp_operations=counts.warp_operations / max(counts.blocks, 1),
            stored=min(touched, touched * max(counts.store_bytes - joined, 0.0) / counted),
            joined=joined * _threads(launch) / _threads(step),
            on_units=counts.unit_products > 0,
        ),
        True,
    )


def _scaled(launch: Launch, step: Launch, touched: float, counted: int, requested: int) -> float:
    """Requested bytes of a launch: those of the counted ``step``, scaled by bytes.

    Where the counted one had less than a byte a thread, what it asked for beyond its bytes was asked for
    by its warps, whatever the length of their rows, and is scaled by their number.
    """
    if counted >= _threads(step) or requested <= counted:
        return touched * requested / counted
    return touched + (requested - counted) * _threads(launch) / _threads(step)


def _threads(launch: Launch) -> int:
    return math.prod(launch.grid) * math.prod(launch.block)


def _most_alike(
    launch: Launch, seen: Iterable[Observation]
) -> tuple[Observation, Launch, LaunchCounts] | None:
    """The counted launch of the same kernel: same instantiation first, then the most bytes."""
    stem = kernel_stem(launch.kernel)
    candidates = [
        (observation, step, counts)
        for observation in seen
        for step, counts in zip(observation.plan.launches, observation.launches, strict=False)
        if kernel_stem(step.kernel) == stem and counts.sectors
    ]
    if not candidates:
        return None

    def likeness(candidate: tuple[Observation, Launch, LaunchCounts]) -> tuple[bool, bool, int]:
        observation, step, _ = candidate
        same = step.kernel == launch.kernel
        return same, step.consts == launch.consts, argument_bytes(observation.plan, step)

    return max(candidates, key=likeness)


def kernel_stem(kernel: str) -> str:
    """``softmax_rows<256>`` -> ``softmax_rows``."""
    return kernel.partition("<")[0].strip()


def _joined(observation: Observation, counts: LaunchCounts) -> float:
    """Bytes of sectors that atomics change: as many as a launch can have that reads where they go."""
    if not counts.load_bytes:
        return 0.0
    sites = [s for s in observation.sites if s.space == "global" and s.kind == "atomic"]
    return float(min(counts.store_bytes, SECTOR * sum(s.transactions for s in sites)))


def _touched(sites: tuple[AccessSite, ...]) -> float:
    """Bytes of sectors that come for one thread's request, on average: 32 a transaction, for 32 lanes."""
    found = [s for s in sites if s.space == "global"]
    requests = sum(s.requests for s in found)
    return sum(s.transactions for s in found) / requests if requests else 0.0


def _width(sites: tuple[AccessSite, ...]) -> float:
    """Mean bytes a thread moves with one global load."""
    loads = [s for s in sites if s.space == "global" and s.kind == "load"]
    requests = sum(s.requests for s in loads)
    return sum(s.requests * s.width_bytes for s in loads) / requests if requests else DEFAULT_WIDTH
