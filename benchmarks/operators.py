"""PyTorch's forward operators, one by one: is it opened, is its kernel right, is the kernel our own?

    python benchmarks/operators.py                                     all of them, on the emulator
    python benchmarks/operators.py --only softmax,nn.Linear --samples 3

A row an operator and sample: ``kernel`` (all of it generated), ``partly`` (generated kernels beside library
calls), ``library`` (library calls alone), ``refused`` with the line that a person reads, or what should not
be: ``failed`` with the verdict, ``crashed`` with the stage and the error. Writes ``operators.json`` to
``benchmarks/receipts``, or into the folder ``$WORKBENCH_RECEIPTS`` names, and ``operators-float16.json`` for
``--dtype float16``; with ``--only`` or ``--rest`` the rows of the other operators stay as they are. Operators
go in batches, each in a process with a time limit: what hangs or dies there is tried again alone, and its row
says so.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import torch  # noqa: E402
from operator_samples import Operator, Sample, chosen, operators  # noqa: E402
from seed_batches import Rows, side_by_side  # noqa: E402

from workbench.errors import ProblemError  # noqa: E402
from workbench.model import H100, Draft, Evaluation, Problem  # noqa: E402
from workbench.playbook.generate import generate  # noqa: E402
from workbench.playbook.rules.moves import seed_vectors  # noqa: E402
from workbench.problem.capture import from_objects, read_cell  # noqa: E402
from workbench.problem.intake import open_problem  # noqa: E402
from workbench.referee.judge import judge  # noqa: E402
from workbench.referee.options import JudgeOptions  # noqa: E402

BATCH = 6
OPTIONS = JudgeOptions(seed=1)
Row = dict[str, Any]


def opened(sample: Sample) -> Problem:
    """The problem of a sample, as a cell of a notebook that has its tensors. Raises ``ProblemError``."""
    if sample.module is None:
        return open_problem(read_cell(sample.cell, "op", {**sample.names, "given": list(sample.tensors)}))
    names = [f"x{number}" for number in range(len(sample.tensors))]
    notebook = {**dict(zip(names, sample.tensors, strict=True)), "layer": sample.module}
    return open_problem(from_objects(notebook, "layer", names))


def best_draft(problem: Problem) -> Draft:
    """The kernel that is expected most of."""
    seeds = seed_vectors(problem, H100, count=5)
    return generate(problem, max(seeds, key=lambda seed: seed.predicted_factor).vector)


def row_of(sample: Sample) -> Row:
    """What comes of one sample."""
    stage = "opening"
    try:
        problem = opened(sample)
        stage = "generating"
        draft = best_draft(problem)
        stage = "judging"
        evaluation = judge(problem, draft.kernel, H100, OPTIONS, lambda stage: None)
    except ProblemError as error:
        return {"got": "refused", "line": plain(error)}
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.name}"
        return {"got": "crashed", "line": f"{stage}: {type(error).__name__}: {plain(error)} ({where})"}
    return judged(evaluation, problem)


def judged(evaluation: Evaluation, problem: Problem) -> Row:
    """A row of a verdict."""
    if not evaluation.passed:
        message = getattr(evaluation.outcome, "message", "") or str(evaluation.outcome)
        return {"got": "failed", "line": f"{evaluation.outcome.kind}: {plain(message)}"}
    facts = evaluation.facts[0]
    calls = sorted(set(facts.library_calls))
    got = "kernel" if not calls else "partly" if facts.launches else "library"
    fixed = [note for note in problem.notes if "fixed to the one" in note]
    return {"got": got} | ({"library": calls} if calls else {}) | ({"notes": fixed} if fixed else {})


def plain(error: object) -> str:
    """A message without what is of this machine alone."""
    return str(error).replace(str(ROOT), ".").replace(str(Path(torch.__file__).parent), "torch")[:600]


def rows_of(operator: Operator, dtype: torch.dtype, count: int) -> Rows:
    """Rows of an operator's samples."""
    try:
        samples = chosen(operator, dtype, count)
    except Exception as error:  # the list has operators that this build of PyTorch lacks
        return [{"op": operator.name, "got": "no sample", "line": f"{type(error).__name__}: {plain(error)}"}]
    rows = [{"op": operator.name, "call": plain(s.shown), **row_of(s)} for s in samples]
    return rows or [{"op": operator.name, "got": "no sample", "line": "no sample of this type"}]


def main() -> int:
    """Run, print, write the receipt; 1 where something failed or crashed."""
    given = arguments()
    found = operators()
    if given.only:
        wanted = set(given.only.split(","))
        found = [one for one in found if one.name in wanted]
    known = receipt_rows(given.dtype)
    if given.rest:
        done = {row["op"] for row in known}
        found = [one for one in found if one.name not in done]
    dtype = getattr(torch, given.dtype)

    def work(numbers: list[int]) -> Rows:
        return [
            {"seed": number, "failure": "", "rows": rows_of(found[number], dtype, given.samples)}
            for number in numbers
        ]

    numbers = list(range(len(found)))
    batches = [numbers[start : start + BATCH] for start in range(0, len(numbers), BATCH)]
    rows: Rows = []
    started = time.perf_counter()
    for batch in side_by_side(work, batches, given.processes, given.seconds or math.inf):
        for one in batch:
            lost = [{"op": found[one["seed"]].name, "got": "crashed", "line": one["failure"]}]
            for row in one.get("rows", lost):
                rows.append(row)
                told = row.get("line", "") or row.get("library", "")
                print(f"{row['op']:<40} {row['got']:<10}{told}", flush=True)
    again = {row["op"] for row in rows}
    kept = [row for row in known if row["op"] not in again] if given.only or given.rest else []
    write([*kept, *rows], given, time.perf_counter() - started)
    return 1 if any(row["got"] in ("failed", "crashed") for row in rows) else 0


def receipt_path(dtype: str) -> Path:
    """Where the receipt lies: one for each type of inputs."""
    folder = Path(os.environ.get("WORKBENCH_RECEIPTS", ROOT / "benchmarks" / "receipts"))
    return folder / ("operators.json" if dtype == "float32" else f"operators-{dtype}.json")


def receipt_rows(dtype: str) -> Rows:
    """Rows of earlier runs."""
    path = receipt_path(dtype)
    return list(json.loads(path.read_text())["rows"]) if path.is_file() else []


def write(rows: Rows, given: argparse.Namespace, seconds: float) -> None:
    """The receipt, in the order of names."""
    rows = sorted(rows, key=lambda row: (row["op"], row.get("call", "")))
    counts = Counter(row["got"] for row in rows)
    receipt = {
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "dtype": given.dtype,
        "operators": len({row["op"] for row in rows}),
        "samples": len(rows),
        "counts": dict(counts.most_common()),
        "seconds": round(seconds),
        "rows": rows,
    }
    receipt_path(given.dtype).write_text(json.dumps(receipt, indent=1) + "\n")
    print(f"{receipt['operators']} operators, {len(rows)} samples: {receipt['counts']}")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="sweep PyTorch's operators")
    parser.add_argument("--only", default="", help="names, with commas between")
    parser.add_argument("--rest", action="store_true", help="those that the receipt does not have")
    parser.add_argument("--dtype", default="float32", help="type of the inputs, where an operator takes it")
    parser.add_argument("--samples", type=int, default=2, help="samples of each operator at most")
    parser.add_argument("--processes", type=int, default=2, help="batches at a time")
    parser.add_argument("--seconds", type=float, default=0.0, help="begin no batch after so long")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
