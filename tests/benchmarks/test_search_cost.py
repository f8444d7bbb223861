"""When a search found its best kernel: the first that is as good as the best, by the time it was judged."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.model import H100, Digest, Evaluation, Kernel, Passed

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import search_cost as module
import searches


class Judge:
    """Takes every kernel for right, a second after the one before."""

    name = "judge"
    target = H100

    async def evaluate(self, problem: object, kernel: Kernel, on_stage: object) -> Evaluation:
        return Evaluation(kernel=kernel.digest, device="emulator", target="H100", outcome=Passed())


def test_the_clock_is_read_when_a_kernel_is_judged_and_all_else_is_the_device() -> None:
    times = iter([10.0, 12.5])
    timed = module.Timed(Judge(), lambda: next(times))
    kernel = Kernel(source="x")
    asyncio.run(timed.evaluate(None, kernel, None))
    assert timed.judged == {kernel.digest: 2.5}
    assert timed.name == "judge" and timed.target == H100
    assert searches.card_of(timed) == "", "a card is named where one judged"
    timed.name = "cuda"
    assert searches.card_of(timed) == H100.name


def test_the_first_as_good_as_the_best_counts() -> None:
    kernels = [(1, 3.0, 0.0), (1, 5.0, 1.996), (2, 9.0, 2.0), (3, 20.0, 1.0)]
    cost = module.Cost(
        "op", 30.0, tuple(module.Kept(r, s, score, "title") for r, s, score in kernels), "done"
    )
    number, kept = cost.found
    assert (number, kept.round, kept.seconds) == (2, 1, 5.0)
    assert _row(cost).startswith("| op | 2.00x | 1 | 2 | 4 | 5 | 30 |")


def test_a_search_without_a_correct_kernel_says_so() -> None:
    cost = module.Cost("op", 30.0, (module.Kept(1, 3.0, 0.0, "title"),), "done")
    assert cost.found is None and "none correct" in _row(cost)


def test_kernels_come_in_the_order_they_were_judged() -> None:

    class Node:
        def __init__(self, digest: str, score: float) -> None:
            hypothesis = type("H", (), {"title": digest})()
            self.evaluation = type("E", (), {"kernel": Digest(digest), "seconds": (("run", 0.5),)})()
            self.branch = type("B", (), {"round": 1, "hypothesis": hypothesis})()
            self.score = score

    tree = type("T", (), {"nodes": {"b1": Node("slow", 1.0), "b2": Node("fast", 2.0)}, "stopped": None})()
    cost = module.cost_of("op", tree, {Digest("slow"): 9.0, Digest("fast"): 4.0}, 12.0)
    assert [one.title for one in cost.kernels] == ["fast", "slow"] and cost.found[0] == 1
    assert cost.kernels[0].stages == {"run": 0.5}


def _row(cost: Any) -> str:
    return str(module.table([cost])[-1])


def test_both_programs_tell_their_searches_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import second_run

    monkeypatch.setenv("WORKBENCH_RECEIPTS", str(tmp_path))
    found = [
        second_run.Search("softmax", "rows", "nothing", (1.0, 1.99, 2.0), (1, 1, 2), 30.4),
        second_run.Search("softmax", "rows", "itself", (), (), 3.0),
    ]
    lines = second_run.table(found)
    assert lines[2:] == [
        "| softmax | nothing | 2.00x | 1 | 2 | 3 | 30 |",
        "| softmax | itself | 0.00x | not | - | 0 | 3 |",
    ]
    assert len({line.count("|") for line in lines}) == 1
    searches.report("second-run", {"device": "model"}, lines, found)
    receipt = json.loads((tmp_path / "second-run.json").read_text())
    assert (
        receipt["device"] == "model"
        and receipt["table"] == lines
        and receipt["rows"][0]["scores"] == [1.0, 1.99, 2.0]
    )
