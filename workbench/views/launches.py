"""What a kernel launches and how full it makes a multiprocessor, read from its plan. Pure; remembered.

A plan that calls the library needs torch to be interpreted: then there is nothing to say here.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from workbench.errors import WorkbenchError
from workbench.model import Kernel, Problem, Resources, Target
from workbench.plan.interpret import interpret, refuse_library
from workbench.plan.parse import parse
from workbench.plan.steps import Launch
from workbench.referee.occupancy import WARP, block_limits

Json = dict[str, Any]


@lru_cache(maxsize=256)
def launches(problem: Problem, kernel: Kernel, target: Target) -> tuple[Launch, ...]:
    """The launches at every declared case the plan covers; empty when the plan alone does not tell."""
    try:
        program = parse(kernel.source)
    except WorkbenchError:
        return ()
    found: list[Launch] = []
    for case in problem.cases:
        try:
            found += interpret(program, problem.metas(case), target, refuse_library).launches
        except WorkbenchError:
            continue
    return tuple(found)


def card_words(target: Target) -> str:
    """The card's figures that kernels are planned by, in a line."""
    return (
        f"{target.sm_count} multiprocessors, copies at {target.dram_bytes_per_s * 1e-12:.2f} TB/s, "
        f"{target.fp32_flops_per_s * 1e-12:.0f} TFLOP/s in float32, {target.dram_bytes / 1e9:.0f} GB, "
        f"{target.l2_bytes >> 20} MiB of L2"
    )


def occupancy(found: tuple[Launch, ...], entry: Resources, target: Target) -> Json | None:
    """Threads resident on a multiprocessor and what keeps others out; None for what is not launched."""
    launch = _launch_of(found, entry)
    if launch is None:
        return None
    threads = math.prod(launch.block)
    shared = shared_bytes(found, entry)
    limits = block_limits(target, threads, entry.registers, shared)
    blocks = min(limits.values())
    resident = blocks * -(-threads // WARP) * WARP
    return {
        "grid": "x".join(map(str, launch.grid)),
        "block": threads,
        "resident": resident,
        "most": target.threads_per_sm,
        "percent": round(100 * resident / target.threads_per_sm),
        "blocks": blocks,
        "limit": _limit(limits, blocks, resident, target),
        "limits": [{"name": name, "blocks": count} for name, count in limits.items()],
    }


def shared_bytes(found: tuple[Launch, ...], entry: Resources) -> int:
    """Shared memory of a block: what the compiler laid out, and what the launch asks for on top."""
    launch = _launch_of(found, entry)
    return entry.shared_bytes + (launch.shared_bytes if launch else 0)


def _launch_of(found: tuple[Launch, ...], entry: Resources) -> Launch | None:
    return next((one for one in found if (one.kernel, one.consts) == (entry.kernel, entry.consts)), None)


def _limit(limits: dict[str, int], blocks: int, resident: int, target: Target) -> str:
    if resident == target.threads_per_sm:
        return "full"
    return f"limited by {' and '.join(name for name, count in limits.items() if count == blocks)}"
