"""Random modules through the whole workbench: captured as a person's file, written by the playbook, judged.

Every module, in KernelBench's form, and its technique vectors are drawn from a seed by module_maker.py. The
first kernel a search would begin with and one or more of random vectors are judged by the referee on the
emulator. Usage, from the root:

    python benchmarks/random_modules.py --count 100 --seed 1

``--seconds 300`` begins none after so long, ``--each 1`` judges one kernel a module. Prints what is not right
as it comes; adds the run to ``random-modules.json`` in ``benchmarks/receipts``, or in the folder
``$WORKBENCH_RECEIPTS`` names. One module again, with its text and its kernels: ``--count 1 --seed N --show``.

A module that the intake refuses, with a sentence, is counted apart: the drawing knows nothing of results that
do not depend on an input. The receipt holds every such sentence and how often it was said.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from module_maker import Sample, sample  # noqa: E402
from random_graphs import playbook_digest  # noqa: E402
from seed_batches import save_into, with_run  # noqa: E402

from workbench.errors import ProblemError  # noqa: E402
from workbench.model import H100, Kernel, Passed, Problem, Vector  # noqa: E402
from workbench.playbook.generate import generate  # noqa: E402
from workbench.playbook.rules.moves import seed_vectors  # noqa: E402
from workbench.problem.capture import read_cell  # noqa: E402
from workbench.problem.intake import open_problem  # noqa: E402
from workbench.referee.judge import judge  # noqa: E402
from workbench.referee.options import JudgeOptions  # noqa: E402

SLOW_S = 30.0
"""An intake or a generation that takes longer is told of."""
_NUMBER = re.compile(r"'[^']*'|-?\d+(\.\d+)?(e[-+]?\d+)?")


@dataclass
class Outcome:
    """What came of one seed."""

    seed: int
    kinds: tuple[str, ...] = ()
    refused: str = ""
    """The intake's sentence."""
    failures: list[str] = field(default_factory=list)
    """Stage and message of what went wrong."""
    facts: dict[str, Any] = field(default_factory=dict)


def outcome_of(drawn: Sample, each: int, options: JudgeOptions, show: bool = False) -> Outcome:
    """Open, write and judge one module."""
    found = Outcome(drawn.seed, drawn.kinds, facts={"dtype": drawn.dtype})
    started = time.monotonic()
    try:
        problem = open_problem(read_cell(drawn.source))
    except ProblemError as error:
        found.refused = str(error)
        return found
    except Exception as error:
        found.failures.append(f"open: {_told(error)}")
        return found
    finally:
        _timed(found, "open", started)
    found.facts |= {"nodes": [node.op for node in problem.graph.nodes], "notes": list(problem.notes)}
    for vector in _vectors(problem, drawn, each, found):
        _judge(problem, vector, options, found, show)
    return found


def _vectors(problem: Problem, drawn: Sample, each: int, found: Outcome) -> Iterator[Vector]:
    """The search's first, then those that were drawn."""
    started = time.monotonic()
    try:
        first = max(seed_vectors(problem, H100, count=5), key=lambda seed: seed.predicted_factor)
    except Exception as error:
        found.failures.append(f"seeds: {_told(error)}")
    else:
        _timed(found, "seeds", started)
        yield first.vector
    yield from drawn.vectors[: each - 1]


def _judge(problem: Problem, vector: Vector, options: JudgeOptions, found: Outcome, show: bool) -> None:
    started = time.monotonic()
    try:
        kernel = generate(problem, vector).kernel
    except Exception as error:
        found.failures.append(f"write: {_told(error)} with {_text(vector)}")
        return
    _timed(found, "write", started)
    if show:
        print(kernel.source)
    started = time.monotonic()
    try:
        told = _verdict(problem, kernel, options, found)
    except Exception as error:
        told = f"judge: {_told(error)}"
    if told:
        found.failures.append(f"{told} with {_text(vector)}")
    found.facts["judge_s"] = found.facts.get("judge_s", 0.0) + time.monotonic() - started


def _verdict(problem: Problem, kernel: Kernel, options: JudgeOptions, found: Outcome) -> str:
    """What is wrong with a kernel; empty for nothing."""
    done = judge(problem, kernel, H100, options, lambda stage: None)
    facts = done.facts[0] if done.facts else None
    found.facts["kernels"] = found.facts.get("kernels", 0) + 1
    found.facts["launches"] = found.facts.get("launches", 0) + (facts.launches if facts else 0)
    found.facts.setdefault("library", []).extend(facts.library_calls if facts else ())
    if isinstance(done.outcome, Passed):
        return ""
    told = getattr(done.outcome, "message", "") or _diagnostics(done.outcome)
    return f"{done.outcome.kind}: {told}"


def _diagnostics(outcome: Any) -> str:
    return "; ".join(f"line {one.line}: {one.message}" for one in getattr(outcome, "diagnostics", ())[:2])


def _timed(found: Outcome, stage: str, started: float) -> None:
    seconds = time.monotonic() - started
    found.facts[f"{stage}_s"] = found.facts.get(f"{stage}_s", 0.0) + seconds
    if seconds > SLOW_S:
        found.failures.append(f"slow: {stage} took more than {SLOW_S:.0f} s")


def _told(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"


def _text(vector: Vector) -> str:
    return "'" + " ".join(f"{name}={value}" for name, value in vector) + "'"


# ------------------------------------------------------------------------------------ the receipt


class Tally:
    """Counts over one run."""

    def __init__(self, first: int, digest: str) -> None:
        self.started = time.monotonic()
        self.run: dict[str, Any] = {
            "date": datetime.now(UTC).strftime("%Y-%m-%d"), "playbook": digest, "first_seed": first,
            "modules": 0, "judged": 0, "refused": 0, "kernels": 0, "launches": 0, "with_library_calls": 0,
            "seconds": 0.0, "failures": [],
        }  # fmt: skip
        self.counts = {
            name: Counter[str]() for name in ("families", "operations", "types", "library", "refusals")
        }

    def add(self, outcome: Outcome) -> None:
        """Count one module."""
        run, facts = self.run, outcome.facts
        run["modules"] += 1
        run["judged"] += bool(facts.get("kernels"))
        run["refused"] += bool(outcome.refused)
        run["kernels"] += facts.get("kernels", 0)
        run["launches"] += facts.get("launches", 0)
        run["with_library_calls"] += bool(facts.get("library"))
        run["seconds"] = round(time.monotonic() - self.started, 1)
        self.counts["families"].update(outcome.kinds)
        self.counts["types"].update([facts.get("dtype", "")])
        self.counts["operations"].update(facts.get("nodes", ()))
        self.counts["library"].update(facts.get("library", ()))
        if outcome.refused:
            self.counts["refusals"].update([_NUMBER.sub("N", outcome.refused)[:200]])
        run["failures"] += [{"seed": outcome.seed, "what": told[:600]} for told in outcome.failures]

    @property
    def whole(self) -> dict[str, Any]:
        """The run as the receipt holds it."""
        counted = {name: dict(counter.most_common()) for name, counter in self.counts.items()}
        return {**self.run, **counted}


def merged(receipt: Mapping[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """The receipt with the run in it; a run that went on replaces what it left before."""
    runs = with_run(receipt, run)
    return {
        "what": "random modules, captured as files, judged by the referee on the emulator",
        "modules": sum(one["modules"] for one in runs),
        "kernels": sum(one["kernels"] for one in runs),
        "failures": sum(len(one["failures"]) for one in runs),
        "runs": runs,
    }


def save(run: dict[str, Any]) -> None:
    """Write the run into the receipt."""
    folder = Path(os.environ.get("WORKBENCH_RECEIPTS", ROOT / "benchmarks" / "receipts"))
    save_into(folder / "random-modules.json", lambda before: merged(before, run))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further module after")
    parser.add_argument("--each", type=int, default=2, help="kernels a module, at most three")
    parser.add_argument("--show", action="store_true", help="print text and kernels; no receipt")
    asked = parser.parse_args()
    options = JudgeOptions(seed=asked.seed)
    tally = Tally(asked.seed, playbook_digest())
    for seed in range(asked.seed, asked.seed + asked.count):
        if time.monotonic() > tally.started + asked.seconds:
            break
        drawn = sample(seed)
        if asked.show:
            print(drawn.source)
        outcome = outcome_of(drawn, asked.each, options, asked.show)
        tally.add(outcome)
        for told in (*([f"refused: {outcome.refused}"] if outcome.refused else ()), *outcome.failures):
            print(f"seed {seed}: {told}", flush=True)
        if not asked.show:
            save(tally.whole)
    run = tally.whole
    print(
        f"{run['modules']} modules, {run['refused']} refused, {run['kernels']} kernels in "
        f"{run['seconds']:.0f} s, {len(run['failures'])} failures"
    )
    return 1 if run["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
