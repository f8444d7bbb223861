"""Says what counters mean, in sentences that the reasoner and the person both read. Pure; golden-tested.

Owns the thresholds. Every sentence has its number, its unit and what it is compared with; the most telling
come first. What the counters do not show is not said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from workbench.model import KernelProfile
from workbench.profile.metrics import STALLS

Bound = Literal["memory", "latency", "compute", "launch", "library"]
Metrics = Mapping[str, float]

BUSY, IDLE = 60.0, 40.0
"""Percent of a peak from which a unit is the limit, and below which it is not (as Nsight Compute does)."""
NEAR_PEAK = 85.0
WASTE = 0.9
"""Part of each fetched sector below which loads are pointed out."""
SHORT_US = 4.0
"""A launch this short is over before the GPU is full."""
SECTOR = 32
THREADS = 32


def bound_of(metrics: Metrics) -> Bound | None:
    """What limits one launch; None when the counters for it are missing."""
    if "dram_percent" not in metrics or "sm_percent" not in metrics:
        return None
    memory = max(metrics["dram_percent"], metrics.get("l2_percent", 0.0))
    compute = metrics["sm_percent"]
    if max(memory, compute) >= BUSY:
        return "memory" if memory >= compute else "compute"
    return "launch" if metrics.get("time_us", SHORT_US) < SHORT_US else "latency"


def longest(kernels: Sequence[KernelProfile]) -> KernelProfile:
    """The launch that takes most time."""
    return max(kernels, key=lambda one: dict(one.metrics).get("time_us", 0.0))


def sentences(kernels: Sequence[KernelProfile]) -> tuple[str, ...]:
    """What the launches of one call did; about the longest of them, when there are several."""
    if not kernels:
        return ()
    chosen = longest(kernels)
    metrics = dict(chosen.metrics)
    told = [_share(chosen, kernels)] if len(kernels) > 1 else []
    for part in (_memory, _sectors, _compute, _occupancy, _grid, _stalls, _shared, _lanes, _spills, _caches):
        told += part(metrics)
    return tuple(sentence for sentence in told if sentence)


def _share(chosen: KernelProfile, kernels: Sequence[KernelProfile]) -> str:
    times = [dict(one.metrics).get("time_us", 0.0) for one in kernels]
    own = dict(chosen.metrics).get("time_us", 0.0)
    if not sum(times):
        return ""
    return (
        f"{chosen.kernel} takes {own / sum(times):.0%} of the {sum(times):.3g} us of {len(kernels)} "
        "launches; the rest is about it."
    )


def _memory(m: Metrics) -> list[str]:
    if "dram_percent" not in m:
        return []
    percent = m["dram_percent"]
    words = f"{percent:.0f}% of DRAM peak"
    if "dram_read_bytes" in m and "dram_write_bytes" in m:
        words += f": {bytes_text(m['dram_read_bytes'])} read, {bytes_text(m['dram_write_bytes'])} written"
    if "time_us" in m:
        words += f" in {m['time_us']:.3g} us"
    if percent >= NEAR_PEAK:
        return [f"{words}. No kernel gets much more; only moving fewer bytes helps."]
    if percent >= BUSY:
        return [f"{words}. Memory is the limit."]
    return [f"{words}. Memory could deliver more."]


def _sectors(m: Metrics) -> list[str]:
    found = []
    for kind in ("load", "store"):
        sectors, used = m.get(f"{kind}_sectors_per_request"), m.get(f"{kind}_bytes_per_sector")
        if not sectors or not used:
            continue
        ideal = sectors * used / SECTOR
        if used < WASTE * SECTOR:
            found.append(
                f"Global {kind}s move {sectors:.1f} sectors per request where {ideal:.1f} would do: "
                f"{used:.0f} of {SECTOR} bytes of each are used."
            )
        else:
            found.append(f"Global {kind}s move {sectors:.1f} sectors per request, all of them used.")
    return found


def _compute(m: Metrics) -> list[str]:
    found = []
    if "issue_percent" in m:
        issue = m["issue_percent"]
        words = f"Instructions issue in {issue:.0f}% of cycles"
        found.append(f"{words}: the schedulers are the limit." if issue >= BUSY else f"{words}.")
    if m.get("tensor_pipe_percent", 0.0) >= 1.0:
        found.append(f"Tensor cores are busy {m['tensor_pipe_percent']:.0f}% of the time.")
    if m.get("special_function_percent", 0.0) >= IDLE:
        busy = m["special_function_percent"]
        found.append(f"The unit for exp, log and square roots is busy {busy:.0f}% of the time.")
    return found


def _occupancy(m: Metrics) -> list[str]:
    if "occupancy_percent" not in m:
        return []
    words = f"Occupancy is {m['occupancy_percent']:.0f}%"
    limit = m.get("occupancy_limit_percent")
    if limit is None or limit > 99.5:
        return [f"{words}."]
    limits = {
        f"{m.get('registers', 0):.0f} registers a thread": m.get("blocks_by_registers"),
        "shared memory": m.get("blocks_by_shared"),
        "the number of warps a block": m.get("blocks_by_warps"),
    }
    known = {name: blocks for name, blocks in limits.items() if blocks is not None}
    if not known:
        return [f"{words}; {limit:.0f}% is possible."]
    cause = min(known, key=lambda name: known[name])
    return [f"{words}; {limit:.0f}% is possible, limited by {cause} to {known[cause]:.0f} blocks an SM."]


def _grid(m: Metrics) -> list[str]:
    waves = m.get("waves")
    if waves is None:
        return []
    if waves < 1:
        return [f"The grid fills {waves:.0%} of the GPU once: more blocks would run at the same time."]
    if waves < 4 and waves % 1 and waves % 1 < 0.7:
        return [f"The grid makes {waves:.1f} waves: in the last one part of the GPU is idle."]
    return []


def _stalls(m: Metrics) -> list[str]:
    stalls = {reason: m[f"stall_{reason}"] for reason in STALLS if m.get(f"stall_{reason}", 0.0) > 0}
    total = sum(stalls.values())
    if not total:
        return []
    first, *others = sorted(stalls, key=lambda reason: -stalls[reason])
    words = f"{stalls[first] / total:.0%} of the time that warps wait, they wait {STALLS[first]} ({first})"
    second = next((reason for reason in others[:1] if stalls[reason] / total >= 0.15), None)
    return [f"{words}, {stalls[second] / total:.0%} {STALLS[second]} ({second})." if second else f"{words}."]


def _shared(m: Metrics) -> list[str]:
    conflicts, wavefronts = m.get("bank_conflicts", 0.0), m.get("shared_wavefronts", 0.0)
    if not wavefronts or conflicts / wavefronts < 0.05:
        return []
    return [f"{conflicts / wavefronts:.0%} of shared-memory wavefronts are bank conflicts."]


def _lanes(m: Metrics) -> list[str]:
    active = m.get("active_threads_per_instruction")
    if active is None or active >= 0.9 * THREADS:
        return []
    return [f"{active:.1f} of {THREADS} threads of a warp are active on average: branches or tails differ."]


def _spills(m: Metrics) -> list[str]:
    if not m.get("local_loads"):
        return []
    return [f"{m['local_loads']:,.0f} loads from local memory: registers are spilled."]


def _caches(m: Metrics) -> list[str]:
    if "l2_hit_percent" not in m:
        return []
    return [f"{m['l2_hit_percent']:.0f}% of L2 sectors hit, {m.get('l1_hit_percent', 0.0):.0f}% of L1's."]


def bytes_text(count: float) -> str:
    """``537 MB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"
