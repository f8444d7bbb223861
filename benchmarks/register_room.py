"""Registers of measured kernels, as they were compiled and with room for every load that is on its way.

Left alone the compiler packs a kernel into 32 registers where it can, by having loads wait for others
(``register_room`` of the playbook). This compiles the kernels of receipts both ways; it needs no GPU. What is
listed first took no more than 32 and takes more when it may: candidates for a card.

    python benchmarks/register_room.py [PROBLEM ...]

On a card ``benchmarks/vectors.py`` compares a vector with and without ``register_room=free``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.compile.service import compile_kernel
from workbench.model import CompileReport

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


def rows(receipt: dict[str, Any]) -> Iterator[Row]:
    """Every kernel of a receipt, once for each set of macros."""
    source = receipt["kernel"]["source"]
    for case in receipt["cases"]:
        for cubin in case["cubins"]:
            consts = tuple((name, value) for name, value in cubin["consts"])
            wanted = [(kernel, consts) for kernel in cubin["kernels"]]
            reports = [compile_kernel(text, wanted) for text in (source, source.replace(BOUNDS, ROOM))]
            packed, free = (report.kernels if isinstance(report, CompileReport) else () for report in reports)
            for one, other in zip(packed, free, strict=True):
                yield Row(
                    receipt["problem"]["name"], case["case"], one.kernel, one.registers, other.registers
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("problems", nargs="*", help="names of problems; all without any")
    wanted = set(parser.parse_args().problems)
    found: dict[tuple[str, str, str], Row] = {}
    for file in sorted(MEASURED.glob("*.json")):
        receipt = json.loads(file.read_text())
        if isinstance(receipt, dict) and (not wanted or receipt["problem"]["name"] in wanted):
            found.update({(row.problem, row.case, row.kernel): row for row in rows(receipt)})
    held_back = [row for row in found.values() if row.packed <= PACKED < row.free]
    print("| problem | shape | kernel | registers | with room |\n|---|---|---|---:|---:|")
    for row in sorted(held_back, key=lambda one: (one.problem, one.case)):
        print(f"| {row.problem} | {row.case} | `{row.kernel}` | {row.packed} | {row.free} |")
    print(f"\n{len(held_back)} of {len(found)} kernels are held back at {PACKED} registers or fewer.")


if __name__ == "__main__":
    main()
