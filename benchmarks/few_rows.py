"""Products of a few rows: what a library takes, and what kernels that read weights once take.

    python benchmarks/few_rows.py --library               torch's ``linear`` for 1 to 32 rows
    python benchmarks/few_rows.py --sweep --seconds 150   kernels of many numbers, each judged, beside eager
    python benchmarks/few_rows.py --told RECEIPT          no GPU: how far the model of time is off a sweep

``$WORKBENCH_RECEIPTS`` names the folder for ``few_rows.json``, which has what was measured by mode.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import on_the_gpu as gpu
import torch

from workbench.model import H100, Passed, Problem, Vector
from workbench.playbook.generate import generate
from workbench.playbook.kernels.few_tiling import AT_A_TIME, AT_LEAST_ON_THEIR_WAY, SPLITS
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.techniques.table import settled
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem

WEIGHTS = (
    (1024, 1024),
    (2048, 1024),
    (1024, 4096),
    (4096, 4096),
    (4096, 11008),
    (11008, 4096),
    (32000, 4096),
)
"""Rows and columns."""
ROWS = (1, 2, 3, 4, 8, 16, 32)
CALLS, SWEPT_BYTES = 50, 200_000_000
"""Calls of a graph, and bytes of weights that take turns, more than L2 keeps."""
OVER_H100 = 1.39
"""An H200's bandwidth over that of the H100 whose model it is."""
Entry = dict[str, Any]
PRODUCTS = (
    ("float32", 4, 4096, 4096),
    ("float32", 16, 4096, 4096),
    ("float32", 8, 1024, 4096),
    ("bfloat16", 4, 4096, 4096),
    ("bfloat16", 8, 1024, 4096),
)
"""Type, rows of the few, and of the weights, and columns."""


def graph_us(call: Callable[[], Any]) -> float:
    """Microseconds of a call, the best of five replays of a graph of many."""
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    times = []
    for _ in range(6):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / CALLS * 1e3)
    return min(times[1:])


def library() -> Iterator[Entry]:
    """What each matrix of weights takes, for all numbers of rows."""
    for dtype, (rows, columns) in itertools.product((torch.float32, torch.bfloat16), WEIGHTS):
        copies = max(1, min(8, SWEPT_BYTES // (rows * columns * dtype.itemsize) + 1))
        weights = [torch.randn(rows, columns, device="cuda", dtype=dtype) for _ in range(copies)]
        bias = torch.randn(rows, device="cuda", dtype=dtype)
        found = []
        for count in ROWS:
            x = torch.randn(count, columns, device="cuda", dtype=dtype)
            found.append(round(graph_us(partial(_called, x, itertools.cycle(weights), bias)), 1))
        yield {"dtype": str(dtype)[6:], "rows": rows, "columns": columns, "us": found}


def _called(x: torch.Tensor, weights: Iterator[torch.Tensor], bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, next(weights), bias)


def problem_of(dtype: str, few: int, rows: int, columns: int) -> Problem:
    """A linear layer and SiLU."""
    shapes = f"(({few}, {columns}), ({rows}, {columns}), ({rows},))"
    return open_problem(
        read_cell(
            "import torch\nfrom torch.nn import functional as F\n"
            "def layer(x, weight, bias):\n    return F.silu(F.linear(x, weight, bias))\n"
            f"inputs = [torch.randn(*shape, dtype=torch.{dtype}) for shape in {shapes}]\n"
        )
    )


def numbers(halves: bool) -> list[dict[str, int]]:
    """Of kernels: rows of a warp, blocks that share columns, threads, elements of a vector, steps ahead."""
    found = [
        {"rows": rows, "split": split, "threads": threads, "width": width, "deep": times * ahead_of(rows)}
        for rows, split, threads, width, times in itertools.product(
            AT_A_TIME, SPLITS, (256, 128), (8, 4) if halves else (4,), (1, 2)
        )
    ]
    random.Random(1).shuffle(found)
    return found


def ahead_of(rows: int) -> int:
    """Steps that a lane is ahead at least."""
    return max(1, AT_LEAST_ON_THEIR_WAY // rows)


def vector_of(problem: Problem, entry: Mapping[str, Any]) -> Vector:
    """The vector of such numbers."""
    names = {"split": "few_split", "threads": "block_size", "width": "vector_width", "rows": "few_rows"}
    found = [(technique, str(entry[name])) for name, technique in names.items()]
    return settled(problem, (*found, ("loads_in_flight", str(entry["deep"] // ahead_of(entry["rows"])))))


def sweep(seconds: float) -> Iterator[Entry]:
    """Every kernel that there is time for, by product; each is judged."""
    device = gpu.open_device(timing=True, hazards=False, baselines=("eager",))
    for product in PRODUCTS:
        until = time.monotonic() + seconds / len(PRODUCTS)
        problem = problem_of(*product)
        for entry in numbers(product[0] != "float32"):
            if time.monotonic() > until:
                break
            kernel = generate(problem, vector_of(problem, entry)).kernel
            judged = asyncio.run(device.evaluate(problem, kernel, lambda stage: None))
            if not isinstance(judged.outcome, Passed) or not judged.times:
                yield {"product": product, **entry, "kind": judged.outcome.kind}
                continue
            (timed,) = judged.times
            eager = 0.0 if timed.measured is None else timed.measured.rivals[0].time_us
            yield {"product": product, **entry, "us": round(timed.time_us, 1), "eager": round(eager, 1)}


def told(receipt: Path) -> Iterator[str]:
    """How far the model of time is off the kernels of a receipt: its mean over theirs, and the scatter."""
    target = H100.model_copy(update={"dram_bytes_per_s": H100.dram_bytes_per_s * OVER_H100})
    logs: list[float] = []
    for product, entries in itertools.groupby(
        json.loads(receipt.read_text())["sweep"], key=lambda entry: entry["product"]
    ):
        problem, own = problem_of(*product), list[float]()
        for entry in entries:
            if "us" in entry and entry["deep"] % ahead_of(entry["rows"]) == 0:
                own.append(math.log(mean_us(problem, vector_of(problem, entry), target) / entry["us"]))
        logs += own
        yield f"{product}: {len(own)} kernels, {math.exp(statistics.mean(own)):.2f} of what they take"
    factor, scatter = math.exp(statistics.mean(logs)), statistics.pstdev(logs)
    yield f"{len(logs)} kernels: {factor:.2f} of what they take, and then off by {scatter:.0%}"


def main() -> None:
    """Measure one of the two, or say what the model makes of a receipt."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--told", type=Path, metavar="RECEIPT")
    parser.add_argument("--seconds", type=float, default=150.0)
    asked = parser.parse_args()
    for line in told(asked.told) if asked.told else ():
        print(line, flush=True)
    measured = {"library": library} if asked.library else {}
    measured |= {"sweep": partial(sweep, asked.seconds)} if asked.sweep else {}
    if measured:
        keep({"device": torch.cuda.get_device_name(), "torch": torch.__version__}, measured, "few_rows.json")


def keep(kept: dict[str, object], measured: Mapping[str, Callable[[], Iterator[Entry]]], file: str) -> None:
    """Print what is measured, and write it down after each, by mode."""
    folder = os.environ.get("WORKBENCH_RECEIPTS")
    for name, measure in measured.items():
        entries: list[Entry] = []
        kept[name] = entries
        for entry in measure():
            print(entry, flush=True)
            entries.append(entry)
            if folder:
                (Path(folder) / file).write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
