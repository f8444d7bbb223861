"""A profile without counters: what resources, plan, measured time and the emulator's counts tell. Pure.

Every sentence names where its number is from; the profile says that no counters were read, and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from workbench.model import (
    Case,
    CaseTime,
    Evaluation,
    KernelProfile,
    Measured,
    PlanFacts,
    Problem,
    Profile,
    Resources,
    Target,
    fastest_over_fp32,
    over_fp32,
)
from workbench.plan.facts import facts
from workbench.plan.steps import Launch, Plan
from workbench.profile.sentences import BUSY, NEAR_PEAK, Bound, bytes_text
from workbench.referee.least_operations import least_flops
from workbench.referee.occupancy import WARP, block_limits
from workbench.referee.roofline import products_per_s

LAUNCH_SHARE = 0.5
"""Part of the time that bare launches take from which launches are the limit."""
LIBRARY_SHARE = 0.5


@dataclass(frozen=True)
class Known:
    """What is known of one kernel at one case."""

    problem: Problem
    case: Case
    plan: Plan
    evaluation: Evaluation
    target: Target


@dataclass(frozen=True)
class _Speed:
    """Least work over measured time."""

    time: CaseTime
    bytes_moved: int
    dram_percent: float
    flops_percent: float
    unit: str
    """Whose peak that is of: float32's, where nothing faster was needed to come so far."""


def estimated(known: Known, why: str) -> Profile:
    """A profile from what is known; ``why`` says in a few words why no counters were read."""
    told = facts(known.plan, known.case.label)
    kernels = tuple(_kernel(known, launch) for launch in known.plan.launches)
    speed = _speed(known, told)
    return Profile(
        case=known.case.label,
        source="estimate",
        kernels=kernels,
        sentences=tuple(_sentences(known, told, speed, kernels)),
        bound=_bound(known, told, speed) if speed else None,
        note=f"No hardware counters: {why}. Estimated from ptxas, the plan and measured time.",
    )


def _speed(known: Known, told: PlanFacts) -> _Speed | None:
    """None without a measured time: a modelled one would only give the model back."""
    times = (t for t in known.evaluation.times if t.case == known.case.label and t.source == "measured")
    time = next(times, None)
    if time is None or time.time_us <= 0:
        return None
    contract, seconds = known.problem.contract, time.time_us * 1e-6
    rate = least_flops(known.problem, known.case) / seconds
    of_all = 100 * rate / products_per_s(known.target, contract)
    of_plain = of_all * fastest_over_fp32(contract, 4) / over_fp32(contract, 4)
    plain = "FP32 peak" if contract == "ieee-fp32" else f"peak of {contract}"
    return _Speed(
        time=time,
        bytes_moved=told.bytes_min,
        dram_percent=100 * told.bytes_min / seconds / known.target.dram_bytes_per_s,
        flops_percent=of_plain if of_plain <= 100 else of_all,
        unit=plain if of_plain <= 100 else "peak of three TF32 products for one in FP32",
    )


def _bound(known: Known, told: PlanFacts, speed: _Speed) -> Bound:
    by_time = speed.time.measured.library_share if speed.time.measured else None
    if (told.library_share if by_time is None else by_time) > LIBRARY_SHARE:
        return "library"
    if known.target.launch_us * told.launches > LAUNCH_SHARE * speed.time.time_us:
        return "launch"
    if max(speed.dram_percent, speed.flops_percent) >= BUSY:
        return "memory" if speed.dram_percent >= speed.flops_percent else "compute"
    return "latency"


# ------------------------------------------------------------------------------------ one launch


def _kernel(known: Known, launch: Launch) -> KernelProfile:
    metrics: list[tuple[str, float]] = []
    used = _resources(known.evaluation, launch)
    if used is not None:
        blocks, _ = _resident(known.target, launch, used)
        threads = prod(launch.block)
        warps = blocks * -(-threads // WARP)
        metrics += [
            ("registers", float(used.registers)),
            ("shared_bytes", float(used.shared_bytes + launch.shared_bytes)),
            ("spill_bytes", float(used.spill_store_bytes + used.spill_load_bytes)),
            ("occupancy_limit_percent", round(100 * warps * WARP / known.target.threads_per_sm, 1)),
        ]
        if blocks:
            metrics.append(("waves", round(prod(launch.grid) / (blocks * known.target.sm_count), 3)))
    return KernelProfile(kernel=launch.kernel, metrics=tuple(metrics))


def _resources(evaluation: Evaluation, launch: Launch) -> Resources | None:
    compiled = evaluation.compiled
    if compiled is None:
        return None
    same = (k for k in compiled.kernels if (k.kernel, k.consts) == (launch.kernel, launch.consts))
    return next(same, None)


def _resident(target: Target, launch: Launch, used: Resources) -> tuple[int, str]:
    """Blocks on one multiprocessor, and what limits them."""
    shared = used.shared_bytes + launch.shared_bytes
    limits = block_limits(target, prod(launch.block), used.registers, shared)
    cause = min(limits, key=lambda name: limits[name])
    return max(limits[cause], 0), cause


# ------------------------------------------------------------------------------------ sentences


def _sentences(
    known: Known, told: PlanFacts, speed: _Speed | None, kernels: tuple[KernelProfile, ...]
) -> Iterator[str]:
    if speed is not None:
        yield _throughput(speed)
        if speed.flops_percent >= 5:
            yield f"{speed.flops_percent:.0f}% of the {speed.unit} (least operations over measured time)."
    if told.bytes_plan > 1.02 * told.bytes_min:
        yield (
            f"The steps touch {told.bytes_plan / max(told.bytes_min, 1):.2g} times the least bytes, "
            f"in {told.launches} launches (plan)."
        )
    measured = speed.time.measured if speed is not None else None
    if measured is not None and measured.steps_us:
        yield _where(measured)
    elif told.library_share > 0:
        yield f"{told.library_share:.0%} of the bytes are moved by library calls (plan)."
    for launch, kernel in zip(known.plan.launches, kernels, strict=True):
        yield from _occupancy(known, launch, dict(kernel.metrics))
    yield from _counted(known)


def _where(measured: Measured) -> str:
    """Which step takes most, and what library calls take."""
    longest = measured.longest_step
    assert longest is not None
    words = (
        f"{longest.name} (line {longest.line}) takes {longest.time_us / measured.steps_us:.0%} of the "
        f"{measured.steps_us:.3g} us of {len(measured.steps)} steps"
    )
    share = measured.library_share
    return f"{words}, library calls {share:.0%} (CUPTI)." if share else f"{words} (CUPTI)."


def _throughput(speed: _Speed) -> str:
    rate = speed.bytes_moved / speed.time.time_us * 1e-6
    least = f"the least bytes, {bytes_text(speed.bytes_moved)},"
    words = (
        f"{speed.dram_percent:.0f}% of a copy's bandwidth: {least} "
        f"in {speed.time.time_us:.3g} us are {rate:.3g} TB/s (plan over measured time)"
    )
    if speed.dram_percent >= NEAR_PEAK:
        return f"{words}. Only moving fewer bytes helps."
    return f"{words}."


def _occupancy(known: Known, launch: Launch, metrics: dict[str, float]) -> Iterator[str]:
    used = _resources(known.evaluation, launch)
    if used is None:
        return
    blocks, cause = _resident(known.target, launch, used)
    yield (
        f"{launch.kernel}: {used.registers} registers a thread (ptxas); at most "
        f"{metrics['occupancy_limit_percent']:.0f}% occupancy, {blocks} blocks an SM, limited by {cause}."
    )
    waves = metrics.get("waves")
    if waves is not None and waves < 1:
        yield f"{launch.kernel}: the grid fills {waves:.0%} of the GPU once (plan)."
    if metrics["spill_bytes"]:
        yield f"{launch.kernel}: {metrics['spill_bytes']:.0f} B a thread are spilled to memory (ptxas)."


def _counted(known: Known) -> Iterator[str]:
    """The line that wastes most sectors, where the emulator has run the kernel too."""
    sites = [s for c in known.evaluation.counts for s in c.sites if s.space == "global" and s.requests]
    worst = max(sites, key=lambda site: site.transactions - site.ideal_transactions, default=None)
    if worst is not None and worst.transactions > 1.1 * worst.ideal_transactions:
        yield (
            f"Line {worst.line}: {worst.transactions / worst.requests:.3g} sectors per request where "
            f"{worst.ideal_transactions / worst.requests:.3g} would do (emulator)."
        )
