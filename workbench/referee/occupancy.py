"""How many blocks of a kernel one multiprocessor holds at once. Pure arithmetic.

The rules are those of the CUDA C++ Programming Guide, "Hardware Multithreading" and "Compute
Capabilities": registers are given to warps in units of 256, shared memory to blocks in units of
128 bytes with 1 KB reserved for the system.
"""

from __future__ import annotations

from workbench.model import Target

WARP = 32
REGISTER_UNIT = 256
SHARED_UNIT = 128
SHARED_RESERVED = 1024


def resident_blocks(target: Target, threads: int, registers: int, shared_bytes: int) -> int:
    """Blocks of ``threads`` that fit on one multiprocessor; 0 when not even one does."""
    warps = -(-max(threads, 1) // WARP)
    by_threads = target.threads_per_sm // (warps * WARP)
    per_warp = -(-max(registers, 1) * WARP // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = target.registers_per_sm // (per_warp * warps)
    shared = -(-shared_bytes // SHARED_UNIT) * SHARED_UNIT + SHARED_RESERVED
    by_shared = target.shared_bytes_per_sm // shared
    return max(min(target.blocks_per_sm, by_threads, by_registers, by_shared), 0)
