"""What kernels take that share launches: each cell with launches apart, beside one another, and in one.

The same vectors otherwise, judged and timed quickly on an NVIDIA GPU, beside what the playbook expects. Run
from the root:

    python benchmarks/shared_launches.py CELL...

Prints microseconds, and writes ``shared-launches.json`` to ``$WORKBENCH_RECEIPTS``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import on_the_gpu as gpu
from off_grid import problem_of

from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import settled
from workbench.referee.clock.contestants import AT_ONCE

SIZES = (("4", "128"), ("8", "128"), ("4", "512"))
"""Elements a load, and threads a block."""


async def rows_of(cell: str, device: Any) -> list[dict[str, Any]]:
    """A row for each kernel that is another one."""
    problem, rows, judged = problem_of(cell), list[dict[str, Any]](), set[str]()
    for width, threads in SIZES:
        for launches in ("apart", "beside", "together"):
            wanted = (("vector_width", width), ("block_size", threads), ("index_width", "32"))
            vector = settled(problem, (*wanted, ("last_written", "on"), ("launches", launches)))
            kernel = generate(problem, vector).kernel
            if kernel.digest in judged:
                continue
            judged.add(kernel.digest)
            found = await device.evaluate(problem, kernel, lambda stage: None)
            guess = estimate(problem, vector, device.target, problem.cases[0].size_map)
            row = {"cell": cell, "launches": launches, "vector_width": width, "block_size": threads}
            told = {"expected_us": round(guess.us, 1), "count": guess.launches, "kind": found.outcome.kind}
            rows.append({**row, **told, "us": [round(one.time_us, 1) for one in found.times]})
            print(rows[-1], flush=True)
    return rows


async def measure(cells: Sequence[str]) -> None:
    """Every cell in turn; written at the end."""
    gpu.workplace()
    device = gpu.open_device(timing=True, hazards=False, baselines=AT_ONCE[:1])
    rows = [row for cell in cells for row in await rows_of(cell, device)]
    if folder := os.environ.get("WORKBENCH_RECEIPTS"):
        told = {"card": device.target.name, "rows": rows}
        (Path(folder) / "shared-launches.json").write_text(json.dumps(told, indent=1) + "\n")
    await device.close()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("cells", nargs="+")
    asyncio.run(measure(parser.parse_args().cells))


if __name__ == "__main__":
    main()
