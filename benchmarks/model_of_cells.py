"""What the model says of eager and of torch.compile, held against cells that a card was seen to take.

    python benchmarks/model_of_cells.py [--seconds 300] [--cells NAME ...]

Reads ``benchmarks/receipts/*-off-grid-*.json``, the newest time of each cell, and models both at the cell's
own shape with the referee's functions. A problem opens in some seconds: cells are taken in a drawn order
until the time is up. A line a cell, those that are furthest off last, and a summary. Needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from off_grid import CELLS, problem_of

from workbench.errors import WorkbenchError
from workbench.model import H100
from workbench.problem.reference import Reference
from workbench.referee.baselines import compile_us, eager_us
from workbench.referee.eager import eager_operations

RECEIPTS = CELLS.parent / "receipts"


@dataclass(frozen=True)
class Held:
    """A baseline of a cell, microseconds."""

    cell: str
    rival: str
    measured: float
    modelled: float

    @property
    def ratio(self) -> float:
        """Model over measurement."""
        return self.modelled / self.measured


def measured() -> dict[str, dict[str, float]]:
    """Times of the baselines by cell, the newest receipt's."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted(RECEIPTS.glob("*-off-grid-*.json"), key=lambda path: path.name):
        for row in json.loads(path.read_text())["rows"]:
            if row.get("rivals"):
                found[row["cell"]] = dict(row["rivals"])
    return found


def held(cell: str, times: dict[str, float]) -> list[Held]:
    """Both baselines of a cell. Raises ``WorkbenchError``."""
    problem = problem_of(cell)
    case = problem.cases[0]
    operations = eager_operations(Reference(problem), problem, case)
    modelled = {
        "eager": eager_us(H100, operations),
        "compile": compile_us(H100, problem, case, operations),
    }
    return [Held(cell, rival, times[rival], us) for rival, us in modelled.items() if times.get(rival)]


def summary(rival: str, found: list[Held]) -> str:
    """Of one baseline."""
    ratios = sorted(one.ratio for one in found if one.rival == rival)
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
    return (
        f"{rival}: {len(ratios)} cells, model over measurement {mean:.2f} (geometric mean), "
        f"{statistics.median(ratios):.2f} (median), {low:.2f} to {high:.2f} (eight of ten)"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--cells", nargs="*", default=())
    given = parser.parse_args()
    times = measured()
    cells = given.cells or random.Random(1).sample(sorted(times), len(times))
    end, found = time.monotonic() + given.seconds, list[Held]()
    for cell in cells:
        if time.monotonic() > end:
            break
        try:
            found += held(cell, times[cell])
        except WorkbenchError as refused:
            print(f"{cell}: {refused}")
    for one in sorted(found, key=lambda one: abs(math.log(one.ratio))):
        print(
            f"{one.cell:28} {one.rival:8} {one.measured:9.1f} modelled {one.modelled:9.1f}  {one.ratio:.2f}"
        )
    for rival in ("eager", "compile"):
        print(summary(rival, found))


if __name__ == "__main__":
    main()
