"""What the archive is worth: the round and the evaluation at which the best kernel is found, twice.

Every op is searched with an empty archive, then again with what that search left, and, where an op of the
same family was searched before it, with what that one left. The best is the best of all searches of the op;
a kernel within 1% of it counts as it. Run from the root:

    python benchmarks/second_run.py [--device model|emulator|cuda] [OP ...]

``model`` compiles each kernel, counts its accesses on the emulator at one small size and times it by the
referee's model; it checks no results, which other suites do. Prints a table and writes a receipt to
``$WORKBENCH_RECEIPTS``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from model_of_time import candidate

from workbench.agents.playbook import playbook_team
from workbench.archive import Archive, remembering
from workbench.devices.base import Device, OnStage
from workbench.live.start import open_device_named
from workbench.model import H100, CompileFailed, Diagnostic, Evaluation, Kernel, Passed, Problem
from workbench.orchestrator import run
from workbench.playbook.family import family_of
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
OPS = ("softmax", "log_softmax", "layer_norm", "rms_norm", "l2_norm", "logsumexp")
NEAR = 0.99


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


@dataclass(frozen=True)
class Search:
    """One search: what it began with and the scores of its kernels in the order they were judged."""

    op: str
    family: str
    memory: str
    scores: tuple[float, ...]
    rounds: tuple[int, ...]
    seconds: float

    @property
    def best(self) -> float:
        return max(self.scores, default=0.0)

    def reached(self, score: float) -> tuple[int, int] | None:
        """Round and evaluation, from 1, of the first kernel near a score."""
        for number, (own, round) in enumerate(zip(self.scores, self.rounds, strict=True), 1):
            if own >= NEAR * score:
                return round, number
        return None


async def search(problem: Problem, device: Device, archive: Archive, policy: Policy) -> Tree:
    """One search in a folder of its own, with an archive."""
    team = remembering(playbook_team(), archive)
    with (
        tempfile.TemporaryDirectory(prefix="second-run-") as folder,
        Session.create(Path(folder) / "s", opening(problem, policy, device, team.name)) as session,
    ):
        await run(session, team, device)
        if session.tree.stopped is None or session.tree.failures:
            raise SystemExit(f"{problem.name}: {session.tree.failures or 'the search did not end'}")
        return session.tree


def told(op: str, family: str, memory: str, tree: Tree, seconds: float) -> Search:
    """What a tree says, branch after branch."""
    judged = [node for node in tree.nodes.values() if node.evaluation is not None]
    return Search(
        op,
        family,
        memory,
        tuple(round(node.score, 4) for node in judged),
        tuple(node.branch.round for node in judged),
        round(seconds, 1),
    )


async def searches(op: str, device: Device, root: Path, policy: Policy, kin: dict[str, str]) -> list[Search]:
    """Without, with its own past, and with the past of another op of the family."""
    problem = open_problem(read_file(ROOT / "sample_ops" / f"{op}.py"))
    family = family_of(problem).name
    begin = [("nothing", root / op)]
    begin.append(("itself", root / op))
    if family in kin:
        begin.append((kin[family], root / kin[family]))
    found = []
    for memory, folder in begin:
        started = time.monotonic()
        tree = await search(problem, device, Archive(folder), policy)
        found.append(told(op, family, memory, tree, time.monotonic() - started))
        print(f"{op}, remembering {memory}: best {found[-1].best:.3f}x", flush=True)
    kin.setdefault(family, op)
    return found


def table(found: Sequence[Search]) -> list[str]:
    """A row a search."""
    lines = ["| op | begins with the past of | best | found in round | as evaluation | of | seconds |"]
    lines.append("|---|---|---|---|---|---|---|")
    for one in found:
        best = max(other.best for other in found if other.op == one.op)
        place = one.reached(best)
        where = f"{place[0]} | {place[1]}" if place else "not | -"
        lines.append(
            f"| {one.op} | {one.memory} | {one.best:.2f}x | {where} | {len(one.scores)} | {one.seconds:.0f} |"
        )
    return lines


def main() -> None:
    """Search, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ops", nargs="*", default=OPS)
    parser.add_argument("--device", default="model", choices=("model", "emulator", "cuda"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--branches", type=int, default=16)
    options = parser.parse_args()
    device: Device = ModelDevice() if options.device == "model" else open_device_named(options.device)
    policy = Policy(rounds=options.rounds, branches=options.branches)
    found: list[Search] = []

    async def everything(root: Path) -> None:
        kin: dict[str, str] = {}
        for op in options.ops:
            found.extend(await searches(op, device, root, policy, kin))
        await device.close()

    with tempfile.TemporaryDirectory(prefix="archives-") as root:
        asyncio.run(everything(Path(root)))
    print("\n".join(table(found)))
    if folder := os.environ.get("WORKBENCH_RECEIPTS"):
        rows = [asdict(one) for one in found]
        receipt = {
            "device": options.device,
            "policy": policy.model_dump(),
            "table": table(found),
            "rows": rows,
        }
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "second-run.json").write_text(json.dumps(receipt, indent=1) + "\n")


if __name__ == "__main__":
    main()
