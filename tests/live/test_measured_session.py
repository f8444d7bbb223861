"""A whole session with measured times: the playbook's kernels, a pretended GPU, receipts in the folder."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from breaking import SOFTMAX
from pretended_gpu import CARD

from workbench.devices.cuda import CudaDevice
from workbench.live import optimize
from workbench.model import Case, CaseTime
from workbench.policy import Policy
from workbench.referee.gpu_baselines import LATER
from workbench.referee.gpu_judge import GpuOptions
from workbench.referee.receipts import read_receipt
from workbench.session import read_tree
from workbench.tree import Tree
from workbench.views.speed import speed_json

LIMIT_S = 300.0
SMALL = SOFTMAX.model_copy(
    update={"cases": (Case(label="8x64", sizes=(("s0", 8), ("s1", 64)), origin="declared"),)}
)


def test_kernels_are_measured_and_leave_receipts(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    device = CudaDevice(options=GpuOptions(hazards=False), serve="pretended_gpu:serve")
    with optimize(SMALL, Policy(rounds=1, branches=3, seeds=3), device, "playbook", folder) as live:
        assert live.wait(LIMIT_S)
        assert live.best is not None and live.best.score_source == "measured"
    tree = read_tree(folder)
    judged = [node.evaluation for node in tree.nodes.values() if node.evaluation is not None]
    assert len(judged) == 3
    assert all(e.passed and e.device == "cuda" and e.target == CARD.target.name for e in judged)
    for evaluation in judged:
        measured = evaluation.times[0].measured
        assert measured is not None
        receipt = read_receipt(folder / measured.receipt)
        assert receipt.kernel_digest == evaluation.kernel
    assert len(list((folder / "receipts").iterdir())) == 3


def test_slow_baselines_come_into_the_cards_while_nobody_waits(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.devices.background.QUIET_S", 0.0)
    folder = tmp_path / "session"
    device = CudaDevice(options=GpuOptions(hazards=False, slow_baselines=True), serve="pretended_gpu:serve")
    came = threading.Event()

    def look(tree: Tree) -> None:
        if any(len(time.baselines) > 1 for time in times_of(tree)):
            came.set()

    with optimize(SMALL, Policy(rounds=1, branches=1, seeds=1), device, "playbook", folder) as live:
        live.subscribe(look)
        assert live.wait(LIMIT_S) and came.wait(LIMIT_S), device._idle.failed
        (time,) = times_of(live.tree)
        (node,) = live.tree.nodes.values()
    assert [name for name, _ in time.baselines] == ["eager", "compile", *LATER]
    assert time.measured is not None and time.measured.missing == ()
    assert time.measured.fastest is not None and time.measured.fastest.name == "graph of compile"
    assert node.evaluation is not None
    speed = speed_json(node.evaluation)
    assert speed is not None and "compile max-autotune" in speed["baselines"]
    assert times_of(read_tree(folder)) == [time], "the journal has it"
    assert read_receipt(folder / time.measured.receipt).cases[0].baselines is not None


def times_of(tree: Tree) -> list[CaseTime]:
    """Every time in the tree."""
    return [time for node in tree.nodes.values() if node.evaluation for time in node.evaluation.times]
