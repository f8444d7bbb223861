"""The playbook's predictions held against times of a real GPU.

Reads receipts with technique vectors and times, models every row with ``workbench/playbook/estimate.py`` and
says how far it is off and how well it orders kernels. Compiles nothing and needs no GPU. Run from the root:

    python benchmarks/predictions.py [--rows] [OP ...]

Times by CUDA events hold 2.45 us that are not the kernel's (a kernel of 1.47 us by CUPTI is 3.92 us by
events in ``receipts/2026-11-21-h100-clock.json``); they are taken off.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from model_of_time import EVENT_OVERHEAD_US, HEAD, Measured, Row, lines, read, summary

from workbench.model import H100, Problem, Vector
from workbench.playbook.estimates.estimate import Estimate, estimate_schedule
from workbench.playbook.schedules.schedule import schedule_of
from workbench.playbook.techniques.table import settled
from workbench.problem.capture import read_file
from workbench.problem.intake import open_problem

ROOT = Path(__file__).resolve().parents[1]
EVENTS = ROOT / "benchmarks" / "receipts" / "2026-11-21-h100-playbook.json"
CUPTI = ROOT / "benchmarks" / "receipts" / "2026-11-21-h100-judged.json"


def modelled(problem: Problem, vector: Vector, sizes: dict[str, int]) -> Estimate:
    """The kernel of the receipt, also where today's rules would no longer write it so."""
    whole = settled(problem, vector)
    single = dict(vector).get("single_pass") == "on"
    return estimate_schedule(problem, replace(schedule_of(whole), single_pass=single), H100, sizes, True)


def rows_of(receipt: Path, problems: dict[str, Problem], overhead_us: float) -> list[Row]:
    """Every row of a receipt whose op and case are known, measured and modelled."""
    found = []
    for row in read(json.loads(receipt.read_text())):
        problem = problems.get(row.op)
        case = next((c for c in problem.cases if c.label == row.case), None) if problem else None
        if problem is None or case is None:
            continue
        guess = modelled(problem, row.vector, case.size_map)
        measured = Measured(row.op, row.case, row.vector, row.us - overhead_us, row.eager_us)
        told = f"{guess.launches} launches, {guess.dram_bytes / 1e6:.3g} MB, {guess.flight_share:.0%} drawn"
        found.append(Row(measured, guess.us, math.nan, told))
    return found


def main() -> None:
    """Read, model, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--rows", action="store_true")
    options = parser.parse_args()
    known = {row["op"] for receipt in (EVENTS, CUPTI) for row in json.loads(receipt.read_text())["rows"]}
    problems = {
        op: open_problem(read_file(ROOT / "sample_ops" / f"{op}.py"))
        for op in sorted(known)
        if not options.ops or op in options.ops
    }
    by_events = rows_of(EVENTS, problems, EVENT_OVERHEAD_US)
    by_cupti = rows_of(CUPTI, problems, 0.0)
    if options.rows:
        print("\n".join(lines(by_events + by_cupti)))
    print("\n".join(table(by_events, by_cupti)))


def table(by_events: Sequence[Row], by_cupti: Sequence[Row]) -> list[str]:
    """Both clocks, then each op by events."""
    told = [HEAD, *(summary(t, r) for t, r in (("events", by_events), ("CUPTI", by_cupti)) if r)]
    for rows, clock in ((by_events, ""), (by_cupti, ", CUPTI")):
        ops = sorted({row.measured.op for row in rows})
        told += [summary(f"{op}{clock}", [row for row in rows if row.measured.op == op]) for op in ops]
    for rows, clock in ((by_events, "events"), (by_cupti, "CUPTI")):
        errors = [abs(row.ratio - 1) for row in rows]
        told.append(f"\n{clock}: median error {statistics.median(errors):.0%}" if errors else "")
    return told


if __name__ == "__main__":
    main()
