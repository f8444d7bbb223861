"""What the model says of torch.compile, held against receipts of a real GPU.

Reads receipts that a cuda device wrote (``benchmarks/grid.py`` keeps them), models compiled PyTorch at each
of their shapes with the referee's own function and says how far it is off. Needs no GPU. Run from the root:

    python benchmarks/model_of_baselines.py [--rows] FOLDER...

Times are taken as they are: the clock has removed what a pair of events adds. Ops are held out as in
``model_of_time.py``: constants may be set with every second op of the alphabet in view, the ``fitted`` ones,
and are judged by the others.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.model import H100, Problem
from workbench.referee.baselines import compile_us

COMPILED = "compile"


@dataclass(frozen=True)
class Row:
    """Compiled PyTorch at one shape, microseconds."""

    op: str
    case: str
    measured: float
    modelled: float

    @property
    def ratio(self) -> float:
        """Model over measurement."""
        return self.modelled / self.measured


def rows_of(receipts: Iterable[Path]) -> list[Row]:
    """Every shape at which a receipt has a time of ``torch.compile``; lists beside receipts are not read."""
    found = []
    for receipt in (json.loads(path.read_text()) for path in receipts):
        if not isinstance(receipt, dict):
            continue
        problem = Problem.model_validate(receipt["problem"])
        cases = {case.label: case for case in problem.cases}
        for one in receipt["cases"]:
            rivals = {rival["name"]: rival["time_us"] for rival in one["measured"]["rivals"]}
            if COMPILED in rivals and one["case"] in cases:
                modelled = compile_us(H100, problem, cases[one["case"]])
                found.append(Row(problem.name, one["case"], rivals[COMPILED], modelled))
    return sorted(found, key=lambda row: (row.op, row.case))


def fitted(rows: Sequence[Row]) -> list[Row]:
    """Rows of every second op of the alphabet."""
    ops = sorted({row.op for row in rows})
    return [row for row in rows if row.op in ops[::2]]


def summary(title: str, rows: Sequence[Row]) -> str:
    """A line of the table."""
    ratios = sorted(row.ratio for row in rows)
    far = math.exp(statistics.median(abs(math.log(ratio)) for ratio in ratios)) - 1
    low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
    return f"| {title} | {len(rows)} | {statistics.median(ratios):.2f} | {low:.2f} - {high:.2f} | {far:.0%} |"


def main() -> None:
    """Read, model, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--rows", action="store_true")
    options = parser.parse_args()
    rows = rows_of(path for folder in options.folders for path in sorted(folder.glob("*.json")))
    if options.rows:
        for row in rows:
            print(f"{row.op:22}{row.case:26}{row.measured:10.1f}{row.modelled:10.1f}{row.ratio:8.2f}")
    near = fitted(rows)
    print("| torch.compile | rows | model / measured | 10 - 90% | median error |\n|---|---|---|---|---|")
    for title, part in (("all", rows), ("fitted", near), ("held out", [r for r in rows if r not in near])):
        print(summary(title, part))


if __name__ == "__main__":
    main()
