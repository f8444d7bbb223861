"""Running totals side by side, and of running totals: scans along the same rows become one kernel.

A recurrence adds up what it has added up; a mean of all that came before is a total over a count, and its
variance one of squares besides. Owns which scans go along a row together. scan_rows_kernel.py writes the
kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from workbench.playbook.analysis.row_totals import buffers_read
from workbench.playbook.analysis.scan_joins import PLACES, in_rows
from workbench.playbook.analysis.scan_tail import is_before, is_total
from workbench.playbook.ir.expr import Load, loads_below
from workbench.playbook.ir.program import Program, ProgramStep, Scan
from workbench.playbook.schedules.schedule import Schedule

MOST = 4
"""Scans of a kernel: a thread keeps a vector of totals of each."""


def chained(program: Program, steps: Sequence[ProgramStep], schedule: Schedule) -> list[ProgramStep]:
    """The steps, with scans that go along the same rows as one; look-back knows one scan only."""
    found = list(steps)
    if not schedule.fuse or schedule.look_back:
        return found
    for later in [step for step in steps if isinstance(step, Scan)]:
        for first in [step for step in found[: found.index(later)] if isinstance(step, Scan)]:
            if not _go_together(found, first, later):
                continue
            others = [step for step in found if step is not first and step is not later]
            wanted = {output.buffer for output in program.outputs}.union(*map(buffers_read, others))
            chain = [replace(one, ahead=(), kept=one.buffer in wanted) for one in (*first.ahead, first)]
            found[found.index(later)] = later = replace(later, ahead=(*later.ahead, *chain))
            found.remove(first)
    return found


def _go_together(steps: list[ProgramStep], first: Scan, later: Scan) -> bool:
    """True when the later one needs of the first the totals at hand or what it reads, or another step needs
    both; and nothing in between needs the first."""
    chain = (*first.ahead, first, *later.ahead, later)
    if first.tail or len(chain) > MOST or not all(map(in_rows, chain)):
        return False
    if any(one.op in PLACES for one in chain):
        return False
    if (first.rows, first.columns, first.backwards) != (later.rows, later.columns, later.backwards):
        return False
    made = {one.buffer: (one.view, (), one.value.dtype) for one in (*first.ahead, first)}
    between = steps[steps.index(first) + 1 : steps.index(later)]
    if any(made.keys() & buffers_read(step) for step in between):
        return False
    reads = [load for load in loads_below(later.values) if load.buffer in made]
    if any((load.view, load.lookups, load.dtype) != made[load.buffer] for load in reads):
        return False
    others = [buffers_read(step) for step in steps if step is not first and step is not later]
    shared = buffers_read(first) & buffers_read(later)
    return bool(reads or shared) or any({first.buffer, later.buffer} <= read for read in others)


def read_by(scan: Scan) -> list[Load]:
    """What a scan reads from memory: not the totals that it has at hand."""
    made = {one.buffer for one in scan.ahead}
    loads = loads_below(scan.values)
    return [one for one in loads if not (is_total(one, scan) or is_before(one, scan) or one.buffer in made)]
