"""The model of time for recurrent layers in one launch.

Owns it: steps follow one another, each with a meeting of a layer's blocks and what a multiprocessor has to
multiply meanwhile. recurrent_tiling.py has the numbers of blocks.
"""

from __future__ import annotations

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.ir.program import RecurrentLayers
from workbench.playbook.kernels.recurrent_tiling import LANES, RecurrentTiling, recurrent_tiling

_MEETING_US = 1.4
"""Of a step, beside its turns: to tell the others, to hear them, and what a thread does by itself."""
_CLOCK_MHZ, _SCHEDULERS = 1755.0, 4
_A_PRODUCT, _A_READ, _A_SUM, _A_WORD = 0.45, 1.3, 14.0, 14.0
"""Clocks of a multiprocessor, fitted to 36 kernels of twelve networks on an H200, 0.6 to 1.4 of what they
take: for a multiply-add of a scheduler's warps, a vector that a warp reads of shared memory, a sum that its
lanes join, and an element that a thread brings."""
_FROM_L2 = 19e12
"""Bytes a second of weights that wait in L2, beyond what the rest of a turn takes."""


def recurrent_time(asked: Asked, made: RecurrentLayers) -> Estimate:
    """Time of all steps of all layers, and of the launch."""
    tiling = recurrent_tiling(made, made.warp_units, asked.declared)
    assert tiling is not None  # the others are the library's
    groups = -(-made.layers // tiling.at_once)
    steps = groups * (asked.at(made.length) + tiling.at_once - 1)
    us = steps * step_us(asked, made, tiling) + asked.target.launch_us
    moved = sum(asked.bytes_of(name) for name in {*made.read, *made.results})
    return Estimate(us, moved, 1, 0.0, 1.0)


def step_us(asked: Asked, made: RecurrentLayers, tiling: RecurrentTiling) -> float:
    """Of one step, at which layers of the launch work at the same time."""
    terms = (made.inputs if made.layers == 1 else made.hidden * made.ways) + made.hidden
    turns = -(-asked.at(made.batch) // tiling.rows)
    share = -(-tiling.warps // _SCHEDULERS)
    products = share * tiling.units * tiling.gates * tiling.rows * terms / LANES
    reads = tiling.warps * (tiling.units * tiling.gates + tiling.rows) * terms / LANES
    clocks = _A_PRODUCT * products + _A_READ * reads + _A_SUM * share * tiling.size
    clocks += _A_WORD * tiling.rows * terms / (LANES * tiling.warps)
    weights = made.gates * made.hidden * terms * tiling.at_once * made.ways * DTYPE_BYTES["f32"]
    read_us = 0.0 if tiling.on_chip else 1e6 * weights / _FROM_L2
    return _MEETING_US + turns * (clocks / _CLOCK_MHZ + read_us)
