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

_MEETING_US = 3.0
"""Of a step, beside its arithmetic: to tell the others, to hear them, and to read what they have left."""
_CLOCK_MHZ, _A_CLOCK, _OF_PEAK = 1755.0, 4, 0.6
"""Warps' multiply-adds a clock of a multiprocessor, and the part of them that is reached."""
_FROM_L2 = 5.0e12
"""Bytes a second that all multiprocessors together read of weights that wait in L2."""


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
    sums = tiling.units * tiling.rows * made.gates
    warps = -(-tiling.warps // _A_CLOCK)
    clocks = turns * warps * (sums * -(-terms // LANES) / _OF_PEAK + 4 * tiling.size)
    weights = made.gates * made.hidden * terms * tiling.at_once * made.ways * DTYPE_BYTES["f32"]
    read_us = 0.0 if tiling.on_chip else 1e6 * turns * weights / _FROM_L2
    return _MEETING_US + max(clocks / _CLOCK_MHZ, read_us)
