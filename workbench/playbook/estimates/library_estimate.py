"""The model of time for library calls.

Owns how bytes and operations follow one another; library_work.py counts them.
"""

from __future__ import annotations

from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.estimates.library_work import alone_bytes_of, asked_of
from workbench.playbook.estimates.scatter_estimate import library_us
from workbench.playbook.ir.program import LibraryCall


def library_time(asked: Asked, call: LibraryCall) -> Estimate:
    """Time of one call."""
    moved, operations = asked_of(asked.program, call, asked.sizes)
    alone = alone_bytes_of(asked.program, call, asked.sizes)
    through = (moved - alone) / asked.target.dram_bytes_per_s
    us = 1e6 * max(through, operations / asked.target.fp32_flops_per_s)
    us += 1e6 * alone / asked.target.dram_bytes_per_s
    us += asked.target.launch_us + library_us(asked, call)
    return Estimate(us, moved, 1, us, 1.0)
