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

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from searches import NEAR, card_of, device_named, grown, parser, report, sample, tabled

from workbench.agents.playbook import playbook_team
from workbench.archive import Archive, remembering
from workbench.devices.base import Device
from workbench.playbook.rules.family import family_of
from workbench.policy import Policy
from workbench.tree import Tree

OPS = ("softmax", "log_softmax", "layer_norm", "rms_norm", "l2_norm", "logsumexp")


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
    problem = sample(op)
    family = family_of(problem).name
    begin = [("nothing", root / op)]
    begin.append(("itself", root / op))
    if family in kin:
        begin.append((kin[family], root / kin[family]))
    found = []
    for memory, folder in begin:
        started = time.monotonic()
        tree = await grown(problem, device, remembering(playbook_team(), Archive(folder)), policy)
        found.append(told(op, family, memory, tree, time.monotonic() - started))
        print(f"{op}, remembering {memory}: best {found[-1].best:.3f}x", flush=True)
    kin.setdefault(family, op)
    return found


def table(found: Sequence[Search]) -> list[str]:
    """A row a search."""
    columns = ("op", "begins with the past of", "best", "found in round", "as evaluation", "of", "seconds")
    rows = []
    for one in found:
        best = max(other.best for other in found if other.op == one.op)
        round, number = one.reached(best) or ("not", "-")
        rows.append(
            (one.op, one.memory, f"{one.best:.2f}x", round, number, len(one.scores), f"{one.seconds:.0f}")
        )
    return tabled(columns, rows)


def main() -> None:
    """Search, print, write."""
    words = parser(__doc__, OPS, rounds=3)
    words.add_argument("--branches", type=int, default=16)
    options = words.parse_args()
    device = device_named(options.device)
    policy = Policy(rounds=options.rounds, branches=options.branches)
    found: list[Search] = []
    how = {"device": options.device, "policy": policy.model_dump()}

    async def everything(root: Path) -> None:
        kin: dict[str, str] = {}
        for op in options.ops:
            found.extend(await searches(op, device, root, policy, kin))
            how["gpu"] = card_of(device)
            report("second-run", how, table(found), found)  # so far: what follows may be cut short
        await device.close()

    with tempfile.TemporaryDirectory(prefix="archives-") as root:
        asyncio.run(everything(Path(root)))
    if failed := sorted({one.op for one in found if not one.best}):
        raise SystemExit(f"no correct kernel: {', '.join(failed)}")


if __name__ == "__main__":
    main()
