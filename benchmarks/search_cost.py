"""What it costs to find the best kernel: the round, the evaluation and the second at which it was judged.

A search as a person starts it, without an archive, with at most 40 evaluations and 60 seconds. A kernel
within 1% of the search's best counts as it. The seconds run from the start of the session, so they hold what
comes before the first kernel, but not opening the problem. Run from the root:

    python benchmarks/search_cost.py [--device model|emulator|cuda] [--seconds 60] [--evaluations 40] [OP ...]

An op is one of ``sample_ops``; the default are those that memory bounds, two of each family. ``model`` is the
device of ``second_run.py``: what it finds is found by modelled times. Prints a table and writes
``search-cost.json`` to ``$WORKBENCH_RECEIPTS``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import grid
from second_run import NEAR, ModelDevice

from workbench.agents.playbook import playbook_team
from workbench.devices.base import Device, OnStage
from workbench.live.start import open_device_named
from workbench.model import Digest, Evaluation, Kernel, Problem
from workbench.orchestrator import run
from workbench.policy import Policy
from workbench.problem.capture import read_file
from workbench.problem.intake import open_problem
from workbench.session import Session, opening
from workbench.tree import Tree

ROOT = Path(__file__).resolve().parents[1]
OPS = ("softmax", "log_softmax", "layer_norm", "rms_norm", "kl_div", "cross_entropy", "gelu_bias", "silu_mul")


class Timed:
    """A device that remembers when it had judged each kernel; otherwise the device it is made of."""

    def __init__(self, device: Device, clock: Any = time.monotonic) -> None:
        self._device, self._clock = device, clock
        self.started = clock()
        self.judged: dict[Digest, float] = {}
        """Seconds from the start, by kernel."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        """Judge, and look at the clock."""
        evaluation = await self._device.evaluate(problem, kernel, on_stage)
        self.judged[kernel.digest] = self._clock() - self.started
        return evaluation


@dataclass(frozen=True)
class Kept:
    """A judged kernel: its score and when it was known."""

    round: int
    seconds: float
    score: float
    title: str


@dataclass(frozen=True)
class Cost:
    """One search."""

    op: str
    seconds: float
    kernels: tuple[Kept, ...]
    """In the order they were judged."""
    stopped: str

    @property
    def found(self) -> tuple[int, Kept] | None:
        """Number, from 1, of the first kernel that is as good as the best; None where none is correct."""
        best = max((one.score for one in self.kernels), default=0.0)
        good = [(n, one) for n, one in enumerate(self.kernels, 1) if one.score >= NEAR * best > 0]
        return good[0] if good else None


def cost_of(op: str, tree: Tree, judged: dict[Digest, float], seconds: float) -> Cost:
    """What a finished search's tree says."""
    kernels = [
        Kept(
            node.branch.round,
            judged.get(node.evaluation.kernel, seconds),
            node.score,
            node.branch.hypothesis.title,
        )
        for node in tree.nodes.values()
        if node.evaluation is not None
    ]
    kernels.sort(key=lambda one: one.seconds)
    stopped = tree.stopped.reason if tree.stopped is not None else "not ended"
    return Cost(op, seconds, tuple(kernels), stopped)


async def search(op: str, device: Device, policy: Policy, all_shapes: bool) -> Cost:
    """One search in a folder of its own."""
    problem = grid.problem_of(op) if all_shapes else open_problem(read_file(ROOT / "sample_ops" / f"{op}.py"))
    timed = Timed(device)
    team = playbook_team()
    with (
        tempfile.TemporaryDirectory(prefix="search-cost-") as folder,
        Session.create(Path(folder) / "s", opening(problem, policy, timed, team.name)) as session,
    ):
        await run(session, team, timed)
        if session.tree.failures:
            raise SystemExit(f"{op}: {session.tree.failures}")
        return cost_of(op, session.tree, timed.judged, time.monotonic() - timed.started)


def table(costs: Sequence[Cost]) -> list[str]:
    """A row a search."""
    lines = ["| op | best | found in round | as evaluation | of | after s | of | the kernel | stopped |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for one in costs:
        if one.found is None:
            lines.append(f"| {one.op} | none correct | | | {len(one.kernels)} | | {one.seconds:.0f} | | |")
            continue
        number, kept = one.found
        lines.append(
            f"| {one.op} | {kept.score:.2f}x | {kept.round} | {number} | {len(one.kernels)} "
            f"| {kept.seconds:.0f} | {one.seconds:.0f} | {kept.title} | {one.stopped} |"
        )
    return lines


def main() -> None:
    """Search, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ops", nargs="*", default=OPS)
    parser.add_argument("--device", default="model", choices=("model", "emulator", "cuda"))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--evaluations", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--grid", action="store_true", help="at the four shapes of benchmarks/grid.py")
    options = parser.parse_args()
    device: Device = ModelDevice() if options.device == "model" else open_device_named(options.device)
    policy = Policy(rounds=options.rounds, branches=options.evaluations, seconds=options.seconds)
    costs: list[Cost] = []

    async def everything() -> None:
        for op in options.ops:
            costs.append(await search(op, device, policy, options.grid))
            print(table(costs[-1:])[-1], flush=True)
        await device.close()

    asyncio.run(everything())
    print("\n".join(table(costs)))
    if folder := os.environ.get("WORKBENCH_RECEIPTS"):
        receipt = {"device": options.device, "policy": policy.model_dump(), "table": table(costs)}
        Path(folder).mkdir(parents=True, exist_ok=True)
        text = json.dumps({**receipt, "rows": [asdict(one) for one in costs]}, indent=1)
        (Path(folder) / "search-cost.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
