"""Running totals of running totals: two scans along the same rows become one kernel, as in a recurrence.

Owns which scans follow one another so. chain_kernel.py writes the kernel.
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


def chained(program: Program, steps: Sequence[ProgramStep], schedule: Schedule) -> list[ProgramStep]:
    """The steps, with a scan and one that reads its totals as one; look-back knows one scan only."""
    found = list(steps)
    if not schedule.fuse or schedule.look_back:
        return found
    for later in [step for step in steps if isinstance(step, Scan)]:
        for first in [step for step in found[: found.index(later)] if isinstance(step, Scan)]:
            if not _follows(found, first, later):
                continue
            others = [step for step in found if step is not first and step is not later]
            wanted = {output.buffer for output in program.outputs}
            kept = first.buffer in wanted.union(*(buffers_read(step) for step in others))
            found[found.index(later)] = replace(later, ahead=replace(first, kept=kept))
            found.remove(first)
            break
    return found


def _follows(steps: list[ProgramStep], first: Scan, later: Scan) -> bool:
    """True when the later one needs of the first the total at hand, and nothing in between needs it."""
    if first.tail or first.ahead is not None or not (in_rows(first) and in_rows(later)):
        return False
    if {first.op, later.op} & PLACES:
        return False
    if (first.rows, first.columns, first.backwards) != (later.rows, later.columns, later.backwards):
        return False
    between = steps[steps.index(first) + 1 : steps.index(later)]
    if any(first.buffer in buffers_read(step) for step in between):
        return False
    reads = [load for load in loads_below(later.values) if load.buffer == first.buffer]
    at_hand = (first.view, (), first.value.dtype)
    return bool(reads) and all((load.view, load.lookups, load.dtype) == at_hand for load in reads)


def read_by(scan: Scan) -> list[Load]:
    """What a scan reads from memory: not the totals that it has at hand."""
    made = {scan.ahead.buffer} if scan.ahead is not None else set()
    loads = loads_below(scan.values)
    return [one for one in loads if not (is_total(one, scan) or is_before(one, scan) or one.buffer in made)]
