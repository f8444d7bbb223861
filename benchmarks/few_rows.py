"""Products of a few rows: what a library takes, and what kernels that read weights once take.

    python benchmarks/few_rows.py --library               torch's ``linear`` for 1 to 32 rows
    python benchmarks/few_rows.py --sweep --seconds 150   kernels of many numbers, each judged, beside eager

Needs an NVIDIA GPU. ``$WORKBENCH_RECEIPTS`` names the folder for ``few_rows.json``; what was printed is kept
there by mode.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import on_the_gpu as gpu
import torch

from workbench.model import H100, Passed, Problem, Vector
from workbench.playbook.generate import generate
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


def library() -> Iterator[str]:
    """A line for each matrix of weights."""
    for dtype, (rows, columns) in itertools.product((torch.float32, torch.bfloat16), WEIGHTS):
        copies = max(1, min(8, SWEPT_BYTES // (rows * columns * dtype.itemsize) + 1))
        weights = [torch.randn(rows, columns, device="cuda", dtype=dtype) for _ in range(copies)]
        bias = torch.randn(rows, device="cuda", dtype=dtype)
        found = []
        for count in ROWS:
            x = torch.randn(count, columns, device="cuda", dtype=dtype)
            turns = itertools.cycle(weights)
            found.append(graph_us(partial(_called, x, turns, bias)))
        yield f"{str(dtype)[6:]} {rows} x {columns}: " + ", ".join(f"{us:.1f}" for us in found)


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


def vectors(halves: bool) -> list[Vector]:
    """Rows of a warp, blocks that share columns, threads, elements of a vector, steps ahead; in any order."""
    widths = ("8", "4") if halves else ("4",)
    numbers = itertools.product((1, 2, 4), (1, 2, 4), (256, 128), widths, (1, 2))
    found = [
        (
            ("block_size", str(threads)),
            ("few_rows", str(rows)),
            ("few_split", str(split)),
            ("loads_in_flight", str(deep)),
            ("vector_width", width),
        )
        for rows, split, threads, width, deep in numbers
    ]
    random.Random(1).shuffle(found)
    return found


def sweep(seconds: float) -> Iterator[str]:
    """A line for each kernel, by product; as many as there is time for."""
    device = gpu.open_device(timing=True, hazards=False, baselines=("eager",))
    for product in PRODUCTS:
        until = time.monotonic() + seconds / len(PRODUCTS)
        problem = problem_of(*product)
        yield f"{product}:"
        for vector in vectors(product[0] != "float32"):
            if time.monotonic() > until:
                break
            whole = settled(problem, vector)
            judged = asyncio.run(
                device.evaluate(problem, generate(problem, whole).kernel, lambda stage: None)
            )
            if not isinstance(judged.outcome, Passed) or not judged.times:
                yield f"  {dict(vector)}: {judged.outcome.kind}"
                continue
            (timed,) = judged.times
            eager = 0.0 if timed.measured is None else timed.measured.rivals[0].time_us
            model = mean_us(problem, whole, H100)
            yield f"  {dict(vector)}: {timed.time_us:.1f} us, model {model:.1f}, eager {eager:.1f}"


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--seconds", type=float, default=150.0)
    asked = parser.parse_args()
    kept: dict[str, object] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name, lines in (("library", library() if asked.library else ()), ("sweep", _sweep(asked))):
        lines_of: list[str] = []
        kept[name] = lines_of
        for line in lines:
            print(line, flush=True)
            lines_of.append(line)
            folder = os.environ.get("WORKBENCH_RECEIPTS")
            if folder:
                (Path(folder) / "few_rows.json").write_text(json.dumps(kept, indent=1) + "\n")


def _sweep(asked: argparse.Namespace) -> Iterator[str]:
    return sweep(asked.seconds) if asked.sweep else iter(())


if __name__ == "__main__":
    main()
