"""Raw samples: read from a receipt when asked for, or a sentence on why there are none."""

from __future__ import annotations

from pathlib import Path

import story
from test_messages import Recorder

from workbench.model import H100, BranchId
from workbench.referee.clock.options import ClockOptions
from workbench.referee.clock.samples import RawTimes, Track
from workbench.referee.receipts import CaseReceipt, Machine, receipt_of, write_receipt
from workbench.tree import Tree
from workbench.views.panel import Panel
from workbench.views.samples import samples_json

B3 = BranchId("b3")


def session(folder: Path) -> Tree:
    """A measured session with one receipt, in which a sample lies far off."""
    tree = story.measured_tree()
    node = tree.nodes[B3]
    assert node.draft and node.evaluation and node.evaluation.times[0].measured
    blocks = tuple((500.0 + i % 7, 501.0 + i % 5) for i in range(30))
    raw = RawTimes(
        case="4096x32768",
        tracks=(
            Track(name="kernel", blocks=(*blocks, (502.0, 9000.0))),
            Track(name="eager", blocks=blocks * 11),
        ),
    )
    case = CaseReceipt(
        case=raw.case, sizes=(), plan=node.evaluation.kernel, cubins=(), input_seed=0, time_us=500.0,
        measured=node.evaluation.times[0].measured, raw=raw,
    )  # fmt: skip
    receipt = receipt_of(
        story.problem(), node.draft.kernel, H100, Machine(card=H100.name), [case], ClockOptions()
    )
    path = write_receipt(receipt, folder / "receipts")
    return story.measured_tree(f"receipts/{path.name}")


def test_every_contestant_is_drawn(tmp_path: Path) -> None:
    found = samples_json(session(tmp_path), B3, tmp_path)
    assert found["words"].startswith("From receipts/")
    words = str(found["cases"][0]["drawing"])
    assert "this kernel" in words and "eager" in words
    assert "; 1 above, to 9000" in words
    assert "31 blocks" in found["cases"][0]["words"]


def test_of_very_many_samples_some_are_shown(tmp_path: Path) -> None:
    drawing = samples_json(session(tmp_path), B3, tmp_path)["cases"][0]["drawing"]
    dots = [part[1]["d"] for part in drawing[2] if str(part[1].get("class", "")).startswith("samples")]
    assert all(d.count("M") <= 400 for d in dots)


def test_why_there_are_none(tmp_path: Path) -> None:
    assert "not measured" in samples_json(story.tree(), BranchId("b4"), tmp_path)["words"]
    assert "cannot read" in samples_json(story.measured_tree(), B3, tmp_path)["words"]
    assert "beside the journal" in samples_json(story.measured_tree(), B3, None)["words"]


def test_the_panel_answers(tmp_path: Path) -> None:
    panel = Panel(session(tmp_path), Recorder(), folder=tmp_path)
    sent: list[dict[str, object]] = []
    panel.send = lambda content, **_: sent.append(content)
    panel._receive(None, {"type": "samples", "branch": "b3"}, None)
    assert sent[0]["type"] == "samples"
    panel.close()
