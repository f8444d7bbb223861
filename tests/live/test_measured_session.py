"""A whole session with measured times: the playbook's kernels, a pretended GPU, receipts in the folder."""

from __future__ import annotations

from pathlib import Path

from breaking import SOFTMAX
from pretended_gpu import CARD

from workbench.devices.cuda import CudaDevice
from workbench.live import optimize
from workbench.model import Case
from workbench.policy import Policy
from workbench.referee.gpu_judge import GpuOptions
from workbench.referee.receipts import read_receipt
from workbench.session import read_tree

LIMIT_S = 120.0
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
