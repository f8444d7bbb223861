"""How many blocks of a kernel one multiprocessor holds at once. Pure arithmetic.

The rules are those of the CUDA C++ Programming Guide, "Hardware Multithreading" and "Compute
Capabilities": registers are given to warps in units of 256, shared memory to blocks in units of
128 bytes with 1 KB reserved for the system.
"""

from __future__ import annotations

from math import prod

from workbench.model import CompileReport, Diagnostic, Resources, Target
from workbench.plan.steps import Launch, Plan

WARP = 32
REGISTER_UNIT = 256
SHARED_UNIT = 128
SHARED_RESERVED = 1024


def block_limits(target: Target, threads: int, registers: int, shared_bytes: int) -> dict[str, int]:
    """Blocks of ``threads`` that each resource of one multiprocessor has room for."""
    warps = -(-max(threads, 1) // WARP)
    per_warp = -(-max(registers, 1) * WARP // REGISTER_UNIT) * REGISTER_UNIT
    shared = -(-shared_bytes // SHARED_UNIT) * SHARED_UNIT + SHARED_RESERVED
    return {
        "threads": target.threads_per_sm // (warps * WARP),
        "registers": target.registers_per_sm // (per_warp * warps),
        "shared memory": target.shared_bytes_per_sm // shared,
        "blocks": target.blocks_per_sm,
    }


def resident_blocks(target: Target, threads: int, registers: int, shared_bytes: int) -> int:
    """Blocks of ``threads`` that fit on one multiprocessor; 0 when not even one does."""
    return max(min(block_limits(target, threads, registers, shared_bytes).values()), 0)


def too_many_at_once(launch: Launch, used: Resources, target: Target) -> str:
    """Why not all blocks of a cooperative launch are on the card at the same time; empty when they are."""
    if not launch.cooperative:
        return ""
    shared = used.shared_bytes + launch.shared_bytes
    most = target.sm_count * resident_blocks(target, prod(launch.block), used.registers, shared)
    if prod(launch.grid) <= most:
        return ""
    words = f"{prod(launch.grid)} blocks that wait for one another, cooperative=True"
    has = f"{used.registers} registers a thread, {shared:,} bytes of shared memory"
    return f"{launch.kernel}: {words}; with {has}, {most} fit on this card at once"


def not_together(target: Target, plan: Plan, report: CompileReport) -> Diagnostic | None:
    """The first cooperative launch of a plan that is too large for the card; None if none is."""
    known = {(entry.kernel, entry.consts): entry for entry in report.kernels}
    for launch in plan.launches:
        used = known.get((launch.kernel, launch.consts))
        if used is not None and (why := too_many_at_once(launch, used, target)):
            return Diagnostic(line=launch.line, message=why)
    return None
