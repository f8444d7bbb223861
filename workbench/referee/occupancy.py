"""How many blocks of a kernel one multiprocessor holds at once. Pure arithmetic.

The rules are those of the CUDA C++ Programming Guide, "Hardware Multithreading" and "Compute
Capabilities": registers are given to warps in units of 256, shared memory to blocks in units of
128 bytes with 1 KB reserved for the system.
"""

from __future__ import annotations

from math import prod

from workbench.model import CompileReport, Diagnostic, Target
from workbench.plan.steps import Plan

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


def not_together(target: Target, plan: Plan, report: CompileReport) -> Diagnostic | None:
    """What is wrong with a cooperative launch whose blocks are not on the card at once; None if nothing."""
    known = {(entry.kernel, entry.consts): entry for entry in report.kernels}
    for step in plan.launches:
        entry = known.get((step.kernel, step.consts))
        if not step.cooperative or entry is None:
            continue
        shared = entry.shared_bytes + step.shared_bytes
        each = resident_blocks(target, prod(step.block), entry.registers, shared)
        if prod(step.grid) > each * target.sm_count:
            words = f"{prod(step.grid)} blocks that wait for one another, cooperative=True"
            has = f"{entry.registers} registers a thread, {shared:,} bytes of shared memory"
            message = f"{step.kernel}: {words}; with {has}, {each * target.sm_count} fit on this card at once"
            return Diagnostic(line=step.line, message=message)
    return None
