"""Given technique vectors of one op, timed side by side at its shapes: to settle which of two is faster.

Usage on a machine with an NVIDIA GPU: ``python benchmarks/vectors.py instance_norm --only 128x256x14x14
"threads_per_row=warp vector_width=4" "threads_per_row=warp vector_width=4 persistent_grid=on"``; a line a
vector, with its quick times against eager. Needs no receipts: nothing is reported from here.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import on_the_gpu as gpu
from grid import problem_of

from workbench.model import Passed, Problem, Vector
from workbench.playbook.generate import generate
from workbench.playbook.moves import parse_vector


async def timed(problem: Problem, vectors: list[Vector]) -> int:
    """Judge and time every vector's kernel, one line each; how many are not right."""
    wrong = 0
    device = gpu.open_device(timing=True, hazards=False, baselines=("eager",))
    print(f"{problem.name}: {', '.join(case.label for case in problem.cases)}", flush=True)
    for vector in vectors:
        kernel = generate(problem, vector).kernel
        judged = await device.evaluate(problem, kernel, lambda stage: None)
        times = " ".join(f"{time.time_us:8.2f}" for time in judged.times)
        wrong += not isinstance(judged.outcome, Passed)
        told = times if isinstance(judged.outcome, Passed) else judged.outcome.model_dump_json()[:200]
        print(f"  {told}  {' '.join(f'{name}={value}' for name, value in vector)}", flush=True)
    await device.close()
    return wrong


def read(text: str) -> Vector:
    """A vector of which the last word on a technique counts. Raises ``UsageError`` for what is not known."""
    last = {word.partition("=")[0]: word for word in text.split()}
    return parse_vector(" ".join(last.values()))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("op")
    parser.add_argument("vectors", nargs="+", help="technique=value, separated by spaces")
    parser.add_argument("--only", default="", help="labels of the shapes to time, separated by commas")
    given = parser.parse_args()
    problem = problem_of(given.op)
    wanted = [case for case in problem.cases if not given.only or case.label in given.only.split(",")]
    problem = problem.model_copy(update={"cases": tuple(wanted)})
    if wrong := asyncio.run(timed(problem, [read(text) for text in given.vectors])):
        raise SystemExit(f"{wrong} of {len(given.vectors)} kernels are not right: they have no times")


if __name__ == "__main__":
    main()
