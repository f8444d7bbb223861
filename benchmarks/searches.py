"""What benchmarks of whole searches share: the device, one search in a folder of its own, and how it is told.

Owns the device of modelled times, the options and the receipt's form. What is counted of a search is for
search_cost.py and second_run.py to say.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from model_of_time import candidate

from workbench.agents.base import Team
from workbench.devices.base import Device, OnStage
from workbench.live.start import open_device_named
from workbench.model import H100, CompileFailed, Diagnostic, Evaluation, Kernel, Passed, Problem
from workbench.orchestrator import run
from workbench.policy import Policy
from workbench.problem.capture import read_file
from workbench.problem.intake import open_problem
from workbench.problem.reference import Reference
from workbench.referee.baselines import EagerOp
from workbench.referee.eager import eager_operations
from workbench.referee.roofline import case_times
from workbench.session import Session, opening
from workbench.tree import Tree

ROOT = Path(__file__).resolve().parents[1]
NEAR = 0.99
"""A kernel this close to the best counts as it."""


class ModelDevice:
    """Times by the referee's model; takes every kernel that compiles for right."""

    name = "model"
    parallel = 2

    def __init__(self) -> None:
        self.target = H100
        self._eager: dict[str, dict[str, tuple[EagerOp, ...]]] = {}

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        """Compile, count at a small size, model."""
        on_stage("compiling")
        return await asyncio.to_thread(self._judge, problem, kernel)

    def _judge(self, problem: Problem, kernel: Kernel) -> Evaluation:
        found = candidate(problem, kernel)
        common = {"kernel": kernel.digest, "device": "emulator", "target": self.target.name}
        if found is None:
            failed = CompileFailed(stage="nvrtc", diagnostics=(Diagnostic(line=1, message="see stderr"),))
            return Evaluation(outcome=failed, **common)
        eager = self._eager_of(problem)
        times = case_times(self.target, problem, found.plans, found.compiled, found.seen, eager)
        return Evaluation(outcome=Passed(), times=times, **common)

    def _eager_of(self, problem: Problem) -> dict[str, tuple[EagerOp, ...]]:
        if problem.digest not in self._eager:
            reference = Reference(problem)
            eager = {case.label: eager_operations(reference, problem, case) for case in problem.cases}
            self._eager[problem.digest] = eager
        return self._eager[problem.digest]

    async def close(self) -> None:
        """Nothing to end."""


def parser(words: str | None, ops: Sequence[str], rounds: int) -> argparse.ArgumentParser:
    """Options of every such benchmark: ops, device, rounds."""
    made = argparse.ArgumentParser(description=words, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument("ops", nargs="*", default=ops)
    made.add_argument("--device", default="model", choices=("model", "emulator", "cuda"))
    made.add_argument("--rounds", type=int, default=rounds)
    return made


def device_named(name: str) -> Device:
    """One of the parser's. Raises ``DeviceError`` where there is no such card."""
    return ModelDevice() if name == "model" else open_device_named(name)


def card_of(device: Device) -> str:
    """The name of the card that a device judges on; empty for one that judges on none."""
    return device.target.name if device.name == "cuda" else ""


def sample(op: str) -> Problem:
    """A sample op at its own shapes."""
    return open_problem(read_file(ROOT / "sample_ops" / f"{op}.py"))


async def grown(problem: Problem, device: Device, team: Team, policy: Policy) -> Tree:
    """The tree of one search, which leaves nothing behind; ends the program where anything failed."""
    with (
        tempfile.TemporaryDirectory(prefix="search-") as folder,
        Session.create(Path(folder) / "s", opening(problem, policy, device, team.name)) as session,
    ):
        await run(session, team, device)
        if session.tree.stopped is None or session.tree.failures:
            raise SystemExit(f"{problem.name}: {session.tree.failures or 'the search did not end'}")
        return session.tree


def tabled(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Markdown: a head and a line a row."""
    head = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return head + [f"| {' | '.join(map(str, row))} |" for row in rows]


def report(name: str, how: Mapping[str, Any], lines: Sequence[str], rows: Sequence[Any]) -> None:
    """Print the table; write ``NAME.json`` with what was asked for, the table and the rows it is made of."""
    print("\n".join(lines))
    if folder := os.environ.get("WORKBENCH_RECEIPTS"):
        receipt = {**how, "table": list(lines), "rows": [asdict(row) for row in rows]}
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.json").write_text(json.dumps(receipt, indent=1) + "\n")
