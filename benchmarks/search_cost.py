"""What it costs to find the best kernel: the round, the evaluation and the second at which it was judged.

A search as a person starts it, without an archive, with at most 40 evaluations and 60 seconds. A kernel
within 1% of the search's best counts as it. The seconds run from the start of the session, so they hold what
comes before the first kernel, but not opening the problem. Run from the root:

    python benchmarks/search_cost.py [--device model|emulator|cuda] [--seconds 60] [--evaluations 40] [OP ...]

An op is one of ``sample_ops``; the default are those that memory bounds, two of each family. ``model`` is the
device of ``searches.py``: what it finds is found by modelled times. Prints a table and writes
``search-cost.json`` to ``$WORKBENCH_RECEIPTS``.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import grid
from searches import NEAR, card_of, device_named, grown, parser, report, sample, tabled

from workbench.agents.playbook import playbook_team
from workbench.devices.base import Device, OnStage
from workbench.model import Digest, Evaluation, Kernel, Problem
from workbench.policy import Policy
from workbench.tree import Tree

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
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds of its judgement, by stage; those of the clock and of the emulator are taken beside others."""


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
            {stage: round(spent, 3) for stage, spent in node.evaluation.seconds},
        )
        for node in tree.nodes.values()
        if node.evaluation is not None
    ]
    kernels.sort(key=lambda one: one.seconds)
    stopped = tree.stopped.reason if tree.stopped is not None else "not ended"
    return Cost(op, seconds, tuple(kernels), stopped)


async def search(op: str, device: Device, policy: Policy, all_shapes: bool) -> Cost:
    """One search in a folder of its own."""
    problem = grid.problem_of(op) if all_shapes else sample(op)
    timed = Timed(device)
    tree = await grown(problem, timed, playbook_team(), policy)
    return cost_of(op, tree, timed.judged, time.monotonic() - timed.started)


def table(costs: Sequence[Cost]) -> list[str]:
    """A row a search."""
    columns = (
        "op",
        "best",
        "found in round",
        "as evaluation",
        "of",
        "after s",
        "of",
        "the kernel",
        "stopped",
    )
    rows: list[tuple[object, ...]] = []
    for one in costs:
        if one.found is None:
            row = (one.op, "none correct", "", "", len(one.kernels), "", f"{one.seconds:.0f}", "", "")
        else:
            number, kept = one.found
            best = (f"{kept.score:.2f}x", kept.round, number, len(one.kernels))
            row = (one.op, *best, f"{kept.seconds:.0f}", f"{one.seconds:.0f}", kept.title, one.stopped)
        rows.append(row)
    return tabled(columns, rows)


def main() -> None:
    """Search, print, write."""
    words = parser(__doc__, OPS, rounds=8)
    words.add_argument("--seconds", type=float, default=60.0)
    words.add_argument("--evaluations", type=int, default=40)
    words.add_argument("--grid", action="store_true", help="at the four shapes of benchmarks/grid.py")
    options = words.parse_args()
    device = device_named(options.device)
    policy = Policy(rounds=options.rounds, branches=options.evaluations, seconds=options.seconds)
    costs: list[Cost] = []
    how = {"device": options.device, "grid": options.grid, "policy": policy.model_dump()}

    async def everything() -> None:
        for op in options.ops:
            costs.append(await search(op, device, policy, options.grid))
            print(table(costs[-1:])[-1], flush=True)
        how["gpu"] = card_of(device)  # not before: the seconds hold what it takes to open a card
        await device.close()

    asyncio.run(everything())
    report("search-cost", how, table(costs), costs)
    if failed := [one.op for one in costs if one.found is None]:
        raise SystemExit(f"no correct kernel: {', '.join(failed)}")


if __name__ == "__main__":
    main()
