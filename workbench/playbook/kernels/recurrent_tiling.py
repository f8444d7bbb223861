"""How the units of recurrent layers lie on blocks and warps, and where their weights wait.

Owns the numbers; recurrent_kernel.py has the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.model import DTYPE_BYTES, H100
from workbench.playbook.ir.program import RecurrentLayers

LANES = 32
UNITS = (1, 2, 3, 4)
"""Units that a warp may have: their weights are read once for all rows, a row once for all of them."""
_MOST_WARPS = 12
"""Of each half of a block."""
_REGISTERS, _BESIDE = 65536, 48
"""Registers of a multiprocessor, and those that a thread needs beside its sums and weights."""
_PARTS = 1024
"""Bytes of shared memory that a block has beside weights: what the system takes."""
_MOST_SUMS, _VECTOR = 128, 4
_LEAST_ROWS, _MOST_OF_ROWS = 8, 65536
"""Rows of the batch that are worth weights on the chip, where there are as many, and bytes of shared memory
for rows of a turn: of what a layer reads, and of its states."""


@dataclass(frozen=True)
class RecurrentTiling:
    """A team of blocks for each layer that is at work at a time, and for each way through the steps."""

    at_once: int
    """Layers at work at a time."""
    team: int
    """Blocks of a layer's way."""
    warps: int
    """Of each half of a block: those that read, and those that wait for states."""
    units: int
    """Of a warp."""
    rows: int
    """Of the batch that a warp has sums for at a time."""
    gates: int
    """Sums of a unit and a row."""
    on_chip: bool
    """Weights wait in shared memory; else they are read again at each step, from L2 where that has room."""
    shared_bytes: int
    """Of weights, and of rows of the batch."""

    @property
    def size(self) -> int:
        """Sums of a lane, with as many more as make a power of two."""
        return 1 << (self.units * self.rows * self.gates - 1).bit_length()

    def blocks(self, made: RecurrentLayers) -> int:
        """Of the launch."""
        return self.at_once * made.ways * self.team


def widest_of(made: RecurrentLayers) -> int:
    """Elements of a row that any of the layers reads, and as many more as make whole vectors."""
    read = max(made.inputs, made.hidden * made.ways if made.layers > 1 else 0)
    return -(-read // _VECTOR) * _VECTOR


def recurrent_tiling(
    made: RecurrentLayers, units: int, cases: Sequence[Mapping[str, int]]
) -> RecurrentTiling | None:
    """With so many units a warp; None where a block would need more threads than it may have.

    As many layers at once as have room for their weights in shared memory; in both directions one, since the
    next needs both ends of it.
    """
    most = made.layers if made.ways == 1 else 1
    tried = [_with(made, units, cases, at_once) for at_once in range(most, 0, -1)]
    found = [one for one in tried if one is not None]
    return next((one for one in found if one.on_chip), found[-1] if found else None)


def _with(
    made: RecurrentLayers, units: int, cases: Sequence[Mapping[str, int]], at_once: int
) -> RecurrentTiling | None:
    teams = at_once * made.ways
    most_blocks = H100.sm_count // teams
    if not most_blocks:
        return None
    warps = -(-made.hidden // (most_blocks * units))
    if warps > _MOST_WARPS:
        return None
    registers = _REGISTERS // max(2 * LANES * warps, 256) - _BESIDE - 4 * units * made.gates
    row = (widest_of(made) + made.hidden) * DTYPE_BYTES["f32"]
    most = min(LANES // units, min(registers, _MOST_SUMS) // (units * made.gates), _MOST_OF_ROWS // row)
    kept = warps * units * made.gates * row
    parts = _PARTS + 3 * warps * _MOST_SUMS * DTYPE_BYTES["f32"]
    beside = (H100.shared_bytes_per_sm - kept - parts) // (2 * row)
    on_chip = beside >= min(most, _LEAST_ROWS)
    most = min(most, beside) if on_chip else most
    if most < 1:
        return None
    batch = max(made.batch.at(case) for case in cases)
    rows = -(-batch // -(-batch // most)) if batch else 1
    team = -(-made.hidden // (warps * units))
    shared = 2 * rows * row + (kept if on_chip else 0)
    return RecurrentTiling(at_once, team, warps, units, rows, made.gates, on_chip, shared)
