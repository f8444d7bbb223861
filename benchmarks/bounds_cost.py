"""What bounds cost before a first kernel is known to be right: on the card, and small ones on the processor.

Every check of a cell, with the reference in a kernel's place, twice: made, and found again as the next kernel
finds it. Needs an NVIDIA GPU. Run from the root:

    python benchmarks/bounds_cost.py CELL...

Prints seconds, and writes ``bounds-cost.json`` to ``$WORKBENCH_RECEIPTS``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from off_grid import problem_of

from workbench.model import Problem
from workbench.numerics.precision import precision
from workbench.referee import matrix, nearby
from workbench.referee.gpu_expectation import Expectations
from workbench.referee.gpu_preparation import preparation
from workbench.referee.options import JudgeOptions


def seconds_of(problem: Problem, small: int) -> dict[str, Any]:
    """Of all checks, where cases of up to ``small`` elements a node are bounded on the processor."""
    nearby.SMALL = small
    request = preparation(problem, JudgeOptions())
    checks = matrix.checks_on_gpu(request.trials, request.options, problem.own_inputs)
    known, found = Expectations(problem, "cuda"), dict[str, Any](small=small)
    with torch.no_grad(), precision(problem.contract):
        for turn in ("made", "found again"):
            started = time.perf_counter()
            there = []
            for planned in checks:
                prepared = known.prepare(planned)
                if prepared is None:
                    continue
                known.differences(prepared, known.reference.call(prepared.tensors))
                there.append(prepared.bounds[0].expected.device.type if prepared.bounds else "in slices")
            torch.cuda.synchronize()
            found[turn] = round(time.perf_counter() - started, 2)
    return {**found, "where": {place: there.count(place) for place in dict.fromkeys(there)}}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("cells", nargs="+")
    given = parser.parse_args()
    usual, rows = nearby.SMALL, []
    torch.zeros(1, device="cuda")
    for cell in given.cells:
        problem = problem_of(cell)
        for small in (0, usual):
            row = {"cell": cell, "nodes": len(problem.graph.nodes), **seconds_of(problem, small)}
            rows.append(row)
            print(row, flush=True)
    if folder := os.environ.get("WORKBENCH_RECEIPTS"):
        told = {"card": torch.cuda.get_device_name(), "rows": rows}
        (Path(folder) / "bounds-cost.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
