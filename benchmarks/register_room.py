"""Registers of measured kernels, as they were compiled and with room for every load that is on its way.

Left alone the compiler packs a kernel into 32 registers where it can, by having loads wait for others. This
compiles the kernels of receipts both ways; it needs no GPU. What is listed took no more than 32 and takes
more when it may. On an H100 that gained nothing (docs/notes/2026-11-24-loops-and-registers.md).

    python benchmarks/register_room.py [PROBLEM ...]

On a card ``--timed`` has the referee time both of those that would take more: the very kernels that were
measured, whatever the playbook writes by now. Quick times, for a decision; nothing is reported from them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import on_the_gpu as gpu

from workbench.compile.service import compile_kernel
from workbench.model import CompileReport, Kernel, Passed, Problem

MEASURED = Path(__file__).resolve().parent / "receipts" / "measured"
BOUNDS, ROOM = "__launch_bounds__(THREADS)", "__launch_bounds__(THREADS, 1)"
PACKED = 32


@dataclass(frozen=True)
class Row:
    """Registers of one kernel at one shape."""

    problem: str
    case: str
    kernel: str
    packed: int
    free: int
    receipt: Path


def rows(file: Path, receipt: dict[str, Any]) -> Iterator[Row]:
    """Every kernel of a receipt, once for each set of macros."""
    source = receipt["kernel"]["source"]
    for case in receipt["cases"]:
        for cubin in case["cubins"]:
            consts = tuple((name, value) for name, value in cubin["consts"])
            wanted = [(kernel, consts) for kernel in cubin["kernels"]]
            reports = [compile_kernel(text, wanted) for text in (source, source.replace(BOUNDS, ROOM))]
            packed, free = (report.kernels if isinstance(report, CompileReport) else () for report in reports)
            for one, other in zip(packed, free, strict=True):
                found = (case["case"], one.kernel, one.registers, other.registers, file)
                yield Row(receipt["problem"]["name"], *found)


async def timed(held_back: Sequence[Row]) -> None:
    """Both forms of each, at the shapes at which it is held back; a line a shape."""
    device = gpu.open_device(timing=True, hazards=False, baselines=("eager",))
    for file in dict.fromkeys(row.receipt for row in held_back):
        shapes = {row.case for row in held_back if row.receipt == file}
        receipt = json.loads(file.read_text())
        problem = Problem.model_validate(receipt["problem"])
        cases = tuple(case for case in problem.cases if case.label in shapes)
        problem = problem.model_copy(update={"cases": cases})
        source = receipt["kernel"]["source"]
        told: dict[str, list[str]] = {case.label: [] for case in cases}
        for text in (source, source.replace(BOUNDS, ROOM), source):
            judged = await device.evaluate(problem, Kernel(source=text), lambda stage: None)
            if not isinstance(judged.outcome, Passed):
                print(f"{problem.name}: {judged.outcome.model_dump_json()[:200]}", flush=True)
                continue
            for time in judged.times:
                told[time.case].append(f"{time.time_us:8.2f}")
        for case, times in told.items():
            print(f"{problem.name} {case}: packed, free, packed again {' '.join(times)} us", flush=True)
    await device.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("problems", nargs="*", help="names of problems; all without any")
    parser.add_argument("--timed", action="store_true", help="time both forms on this machine's GPU")
    given = parser.parse_args()
    wanted = set(given.problems)
    found: dict[tuple[str, str, str], Row] = {}
    for file in sorted(MEASURED.glob("*.json")):
        receipt = json.loads(file.read_text())
        if isinstance(receipt, dict) and (not wanted or receipt["problem"]["name"] in wanted):
            found.update({(row.problem, row.case, row.kernel): row for row in rows(file, receipt)})
    held_back = [row for row in found.values() if row.packed <= PACKED < row.free]
    print("| problem | shape | kernel | registers | with room |\n|---|---|---|---:|---:|")
    for row in sorted(held_back, key=lambda one: (one.problem, one.case)):
        print(f"| {row.problem} | {row.case} | `{row.kernel}` | {row.packed} | {row.free} |")
    print(f"\n{len(held_back)} of {len(found)} kernels are held back at {PACKED} registers or fewer.")
    if given.timed:
        asyncio.run(timed(held_back))


if __name__ == "__main__":
    main()
