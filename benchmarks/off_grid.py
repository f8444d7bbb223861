"""Cells that no grid was tuned on: realistic modules, a short search each, beside eager and torch.compile.

The grid says how fast the playbook is on what it was measured on again and again. This says how fast it is
on what a person brings. Every file of ``benchmarks/cells`` is one cell at one shape; kernels are found as in
``grid.py`` (quick times against eager), the one that is found is judged afresh against eager and
torch.compile. A cell that a change was tuned on is no longer one of these: add others.

    python benchmarks/off_grid.py --list                      the cells
    python benchmarks/off_grid.py --first 4 [CELL ...]        no GPU: modelled times, share of roofline
    python benchmarks/off_grid.py --device cuda --seconds 500 [CELL ...]
    python benchmarks/off_grid.py --table RECEIPT ...         what receipts say, the oldest first, as Markdown

``$WORKBENCH_RECEIPTS`` names the folder for ``off_grid.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import on_the_gpu as gpu
from compiled_first import warm, warm_all
from grid import Searcher
from grid import problem_of as on_the_grid
from searches import ModelDevice, tabled

from workbench.errors import WorkbenchError
from workbench.model import CaseTime, Evaluation, Kernel, Passed, Problem
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.referee.clock.contestants import AT_ONCE, AUTOTUNED

CELLS = Path(__file__).resolve().parent / "cells"
UNFUSED = ("fusion", "none")
LEAST_S = 25.0
"""No cell is begun with less time left."""


@dataclass(frozen=True)
class Row:
    """What became of a cell; times in microseconds."""

    cell: str
    kind: str
    us: float = 0.0
    rivals: tuple[tuple[str, float], ...] = ()
    share: float = 0.0
    """Of the roofline."""
    kernels: int = 0
    failed: int = 0
    """Kernels that were not right."""
    found_s: float = 0.0
    """Seconds of the whole search."""
    best_s: float = 0.0
    """Until its best kernel was judged."""
    vector: tuple[tuple[str, str], ...] = ()
    why: str = ""

    @property
    def factor(self) -> float:
        """Over the faster rival; 0 where there is no time."""
        return min((us for _, us in self.rivals), default=0.0) / self.us if self.us else 0.0

    def line(self) -> str:
        """For the terminal."""
        rivals = ", ".join(f"{name} {us:.1f}" for name, us in self.rivals) or self.why
        told = f"{self.us:8.1f} us {self.factor:5.2f} {self.share:5.0%}  {rivals}; {self.kernels} kernels"
        failed = f", {self.failed} not right" if self.failed else ""
        return f"{self.cell:<24}{told if self.us else self.kind + ': ' + self.why}{failed}"


def names() -> list[str]:
    """Every cell."""
    return sorted(path.stem for path in CELLS.glob("*.py"))


def problem_of(cell: str) -> Problem:
    """A cell at its own shape. Raises ``ProblemError``."""
    return on_the_grid(f"cells/{cell}")


def opened(cell: str) -> Problem:
    """The same, as a program that compiled its baselines has kept it. Raises ``ProblemError``."""
    kept = _kept(cell)
    return Problem.model_validate_json(kept.read_text()) if kept.is_file() else problem_of(cell)


def compile_baselines(cell: str) -> None:
    """Fill torch's caches, and keep the problem: both take seconds that a card need not wait for."""
    problem = problem_of(cell)
    _kept(cell).parent.mkdir(parents=True, exist_ok=True)
    _kept(cell).write_text(problem.model_dump_json())
    warm(problem, [AUTOTUNED])


def _kept(cell: str) -> Path:
    return gpu.workplace() / "opened" / f"{cell}.json"


def row_of(cell: str, problem: Problem, quick: Any, thorough: Any, first: int) -> Row:
    """Search, and judge what is found; with ``first`` no more than so many kernels, none of them refined."""
    started = time.perf_counter()
    searcher = Searcher(problem, quick)
    if first:
        seeds = seed_vectors(problem, quick.target, count=2 * first)
        asyncio.run(searcher.try_all([card for card in seeds if UNFUSED not in card.vector], first))
        kernel = generate(problem, searcher.best.vector).kernel if searcher.best else None
    else:
        kernel = asyncio.run(searcher.run())
    found_s = time.perf_counter() - started
    tried, failed = len(searcher.found), len(searcher.found) - len(searcher.able)
    best = searcher.best
    if kernel is None or best is None:
        tried_first = searcher.found[0].evaluation if searcher.found else None
        why = tried_first.outcome.model_dump_json()[:200] if tried_first else "no kernel"
        return Row(cell, "no correct kernel", kernels=tried, failed=failed, why=why)
    evaluation = _judged(thorough, problem, kernel)
    if not isinstance(evaluation.outcome, Passed) or not evaluation.times:
        return Row(cell, evaluation.outcome.kind, why=evaluation.outcome.model_dump_json()[:200])
    timed = evaluation.times[0]
    return Row(
        cell,
        "passed",
        timed.time_us,
        rivals(timed),
        timed.roofline_share,
        tried,
        failed,
        found_s,
        searcher.judged_at[best.name] - started,
        best.vector,
        why="" if timed.measured is None else str(dict(timed.measured.missing)),
    )


def rivals(timed: CaseTime) -> tuple[tuple[str, float], ...]:
    """The baselines and their times."""
    if timed.measured is None:
        return timed.baselines
    return tuple((one.name, one.time_us) for one in timed.measured.rivals)


def _judged(device: Any, problem: Problem, kernel: Kernel) -> Evaluation:
    evaluation: Evaluation = asyncio.run(device.evaluate(problem, kernel, lambda stage: None))
    return evaluation


def summary(rows: Sequence[Row]) -> str:
    """The figures of all rows that have times."""
    timed = sorted((row for row in rows if row.us), key=lambda row: row.factor)
    timed = [row for row in timed if row.rivals]
    if not timed:
        return "no times"
    factors = [row.factor for row in timed]
    below = [f"{row.cell} {row.factor:.2f}" for row in timed if row.factor < 0.97]
    geomean, median = statistics.geometric_mean(factors), statistics.median(factors)
    told = f"{len(rows)} cells, {len(timed)} with times: geometric mean {geomean:.2f}, median {median:.2f}"
    return f"{told}; below 0.97: {', '.join(below) or 'none'}"


def table(receipts: Sequence[Path]) -> list[str]:
    """A line a cell, the slowest beside its rivals first: times of every receipt, the newest factor."""
    found: dict[str, list[Row]] = {}
    for receipt in receipts:
        for told in json.loads(receipt.read_text())["rows"]:
            rivals = tuple((name, us) for name, us in told["rivals"])
            row = Row(**{**told, "rivals": rivals, "vector": ()})
            found.setdefault(row.cell, []).append(row)
    lines = []
    for cell, rows in sorted(found.items(), key=lambda one: one[1][-1].factor):
        last = rows[-1]
        times = " → ".join(f"{row.us:.1f}" if row.us else "none right" for row in rows)
        rivals = dict(last.rivals)
        against = [f"{rivals[name]:.1f}" if name in rivals else "–" for name in ("eager", "compile")]
        lines.append(
            [cell, times, *against, f"{last.factor:.2f}" if last.rivals else "–", f"{last.share:.0%}"]
        )
    newest = summary([rows[-1] for rows in found.values()])
    return [*tabled(("cell", "us", "eager", "compile", "factor", "roofline"), lines), "", newest]


def run(cells: Sequence[str], device: str, seconds: float, first: int) -> list[Row]:
    """One row a cell, as many as there is time for; written after each."""
    give_up = time.monotonic() + seconds
    if device == "cuda":
        gpu.workplace()  # one folder for this program and those that it starts
        own = [sys.executable, __file__, "--warm"]
        late = warm_all({cell: [*own, cell] for cell in cells}, seconds / 2)
        print(
            f"baselines compiled after {time.monotonic() - give_up + seconds:.0f} s; not: {late}", flush=True
        )
        quick = gpu.open_device(timing=True, hazards=False, baselines=AT_ONCE[:1])
        thorough = gpu.open_device(timing=True, hazards=False, baselines=AT_ONCE)
    else:
        quick = thorough = ModelDevice()
    rows: list[Row] = []
    for cell in cells:
        if give_up - time.monotonic() < LEAST_S:
            print(f"{cell}: no time left", flush=True)
            continue
        print(f"{cell}:", flush=True)
        try:
            rows.append(row_of(cell, opened(cell), quick, thorough, first))
        except WorkbenchError as error:
            rows.append(Row(cell, "refused", why=str(error)[:200]))
        except Exception as error:  # the card is lent for minutes: the other cells are not given up
            rows.append(Row(cell, "failed", why=f"{type(error).__name__}: {error}"[:200]))
        print(rows[-1].line(), flush=True)
        keep(rows, quick.target.name)
    for one in {id(one): one for one in (quick, thorough)}.values():
        asyncio.run(one.close())
    return rows


def keep(rows: Sequence[Row], card: str) -> None:
    """Write the receipt."""
    if folder := os.environ.get("WORKBENCH_RECEIPTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        told = {"card": card, "rows": [asdict(row) for row in rows], "summary": summary(rows)}
        (Path(folder) / "off_grid.json").write_text(json.dumps(told, indent=1) + "\n")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("cells", nargs="*")
    parser.add_argument("--device", choices=("model", "cuda"), default="model")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--first", type=int, default=0, help="so many kernels, none of them refined")
    parser.add_argument("--list", action="store_true")
    parser.add_argument(
        "--warm", default="", help="compile one cell's baselines; the program calls itself so"
    )
    parser.add_argument("--table", nargs="+", type=Path, help="receipts of earlier runs")
    given = parser.parse_args()
    if given.warm:
        compile_baselines(given.warm)
        return
    if given.table:
        print("\n".join(table(given.table)))
        return
    cells = given.cells or names()
    if unknown := sorted(set(cells) - set(names())):
        parser.error(f"no cell {', '.join(unknown)}")
    if given.list:
        print("\n".join(cells))
        return
    rows = run(cells, given.device, given.seconds, given.first)
    print("\n".join(["", *(row.line() for row in sorted(rows, key=lambda row: row.factor)), summary(rows)]))


if __name__ == "__main__":
    main()
