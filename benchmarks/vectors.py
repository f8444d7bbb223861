"""Given technique vectors of one op, timed side by side at its shapes: to settle which of two is faster.

Usage on a machine with an NVIDIA GPU: ``python benchmarks/vectors.py instance_norm --only 128x256x14x14
"threads_per_row=warp vector_width=4" "threads_per_row=warp vector_width=4 persistent_grid=on"``; a line a
vector, with its quick times against eager. ``$WORKBENCH_RECEIPTS`` names the folder for a receipt of the
same, ``vectors-NAME.json``. Instead of an op, a problem that kernelbench.py has opened
(``OUT/opened/level3_9.json``).
``--steps`` adds what each step of a plan takes beside what the model of time had expected of it;
``--profile`` adds what Nsight Compute counts of each, launch by launch (6 s each); a vector given twice is
compiled once and loaded twice, which shows what a time owes to where its code lies.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import on_the_gpu as gpu
from grid import problem_of

from workbench.model import H100, CaseTime, Passed, Problem, Profile, Vector
from workbench.playbook.estimates.estimate import estimate_steps
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import parse_vector
from workbench.playbook.schedules.schedule import schedule_of
from workbench.playbook.techniques.table import settled


def profile_lines(profile: Profile | None) -> Iterator[str]:
    """What was counted, a line a launch, and the sentences made of it."""
    if profile is None:
        yield "no profile"
        return
    for kernel in profile.kernels:
        yield f"{kernel.kernel}: " + " ".join(f"{name}={value:.4g}" for name, value in kernel.metrics)
    yield from (*profile.sentences, *(() if not profile.note else (profile.note,)))


def step_lines(problem: Problem, vector: Vector, time: CaseTime) -> Iterator[str]:
    """What each step of a plan takes, and what the model of time had expected of it.

    The model counts with a convolution what lays its weights out, and knows nothing of copies that the
    library wants; where other steps are missing on either side, both lists are told, one after the other.
    """
    sizes = next(case.size_map for case in problem.cases if case.label == time.case)
    expected = [
        one.us for _, one in estimate_steps(problem, schedule_of(settled(problem, vector)), H100, sizes)
    ]
    measured = time.measured.steps if time.measured else ()
    are_paired = sum(not _prepares(step.name) for step in measured) == len(expected)
    left = iter(expected if are_paired else ())
    for step in measured:
        us = None if _prepares(step.name) else next(left, None)
        told = "" if us is None else f"{us:9.1f} expected"
        yield f"{step.time_us:9.1f} {told:<20} {step.name} (line {step.line})"
    if not are_paired:
        yield f"{len(expected)} steps were expected: {' '.join(f'{us:.1f}' for us in expected)}"


def _prepares(name: str) -> bool:
    return name.endswith("_weights") or name == "aten.contiguous"


async def timed(problem: Problem, vectors: list[Vector], closer: bool, steps: bool) -> int:
    """Judge and time every vector's kernel, one line each; how many are not right."""
    rows: list[dict[str, object]] = []
    device = gpu.open_device(timing=True, hazards=False, baselines=("eager",))
    print(f"{problem.name}: {', '.join(case.label for case in problem.cases)}", flush=True)
    for vector in vectors:
        kernel = generate(problem, vector).kernel
        judged = await device.evaluate(problem, kernel, lambda stage: None)
        times = " ".join(f"{time.time_us:8.2f}" for time in judged.times)
        found = {time.case: time.time_us for time in judged.times}
        rows.append({"vector": list(vector), "kind": judged.outcome.kind, "us": found})
        told = times if isinstance(judged.outcome, Passed) else judged.outcome.model_dump_json()[:200]
        print(f"  {told}  {' '.join(f'{name}={value}' for name, value in vector)}", flush=True)
        if steps and isinstance(judged.outcome, Passed):
            for time in judged.times:
                for line in step_lines(problem, vector, time):
                    print(f"      {line}", flush=True)
        if closer and isinstance(judged.outcome, Passed):
            for line in profile_lines(await device.profile(problem, kernel, judged)):
                print(f"      {line}", flush=True)
    if folder := os.environ.get("WORKBENCH_RECEIPTS"):
        told = {"problem": problem.name, "card": device.target.name, "rows": rows}
        (Path(folder) / f"vectors-{problem.name}.json").write_text(json.dumps(told, indent=1) + "\n")
    await device.close()
    return sum(row["kind"] != "passed" for row in rows)


def read(text: str) -> Vector:
    """A vector of which the last word on a technique counts. Raises ``UsageError`` for what is not known."""
    last = {word.partition("=")[0]: word for word in text.split()}
    return parse_vector(" ".join(last.values()))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("op")
    parser.add_argument("vectors", nargs="+", help="technique=value, separated by spaces")
    parser.add_argument("--only", default="", help="labels of the shapes to time, separated by spaces")
    parser.add_argument("--profile", action="store_true", help="what Nsight Compute counts of each")
    parser.add_argument("--steps", action="store_true", help="what each step takes, beside what was expected")
    given = parser.parse_args()
    opened = Path(given.op)
    problem = (
        Problem.model_validate_json(opened.read_text()) if opened.suffix == ".json" else problem_of(given.op)
    )
    wanted = [case for case in problem.cases if not given.only or case.label in given.only.split()]
    problem = problem.model_copy(update={"cases": tuple(wanted)})
    run = timed(problem, [read(text) for text in given.vectors], given.profile, given.steps)
    if wrong := asyncio.run(run):
        raise SystemExit(f"{wrong} of {len(given.vectors)} kernels are not right: they have no times")


if __name__ == "__main__":
    main()
