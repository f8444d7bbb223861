"""Speed of a kernel that an H100 measured against all five baselines, as a person sees it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import story

from workbench.model import BranchId, CaseTime, Evaluation, Passed
from workbench.referee.receipts import Receipt, read_receipt
from workbench.views.samples import samples_json
from workbench.views.speed import BASELINES, speed_json, timing_json

MEASURED = Path(__file__).resolve().parents[2] / "benchmarks" / "receipts" / "measured"


def receipts() -> list[Path]:
    """Those with all five baselines at every shape."""
    found = []
    for path in sorted(MEASURED.glob("*-nvidia-*.json")):
        cases = json.loads(path.read_text())["cases"]
        if all(len(case["measured"]["rivals"]) == len(BASELINES) for case in cases):
            found.append(path)
    return found


def evaluation(receipt: Receipt) -> Evaluation:
    """What the receipt claims, as the session's journal holds it."""
    times = tuple(
        CaseTime(
            case=case.case,
            source="measured",
            time_us=case.time_us,
            floor_us=case.floor_us,
            measured=case.measured,
            baselines=tuple((rival.name, rival.time_us) for rival in case.measured.rivals),
        )
        for case in receipt.cases
    )
    return Evaluation(
        kernel=receipt.kernel_digest,
        device="cuda",
        target=receipt.target.name,
        outcome=Passed(),
        times=times,
    )


def test_there_is_such_a_receipt() -> None:
    assert receipts()


@pytest.mark.many(6)
@pytest.mark.parametrize("path", receipts(), ids=lambda path: path.name[:12])
def test_every_shape_stands_against_every_baseline(path: Path) -> None:
    receipt = read_receipt(path)
    judged = evaluation(receipt)
    found: Any = speed_json(judged)
    assert found["baselines"] == list(BASELINES)
    for row, case in zip(found["rows"], receipt.cases, strict=True):
        rivals = {rival.name: rival for rival in case.measured.rivals}
        for cell in row["cells"]:
            rival = rivals[cell["name"]]
            assert (cell["ratio"], cell["low"], cell["high"]) == (
                round(rival.ratio, 4),
                rival.low,
                rival.high,
            )
            assert cell["text"] in found["drawing"][1]["aria-label"]
    assert "–" not in found["means"]


@pytest.mark.many(6)
@pytest.mark.parametrize("path", receipts(), ids=lambda path: path.name[:12])
def test_every_shape_opens_to_its_rivals(path: Path) -> None:
    for time in evaluation(read_receipt(path)).times:
        rivals = timing_json(time)["measured"]["rivals"]
        assert [rival["name"] for rival in rivals] == list(BASELINES)
        assert all(rival["interval"] and rival["words"] for rival in rivals)


@pytest.mark.many(6)
@pytest.mark.parametrize("path", receipts(), ids=lambda path: path.name[:12])
def test_every_sample_is_drawn(path: Path, tmp_path: Path) -> None:
    (tmp_path / "receipts").mkdir()
    shutil.copy(path, tmp_path / "receipts" / "one.json")
    cases = samples_json(story.measured_tree("receipts/one.json"), BranchId("b3"), tmp_path)["cases"]
    assert len(cases) == len(read_receipt(path).cases)
    for case in cases:
        said = case["drawing"][1]["aria-label"]
        assert all(name in said for name in ("this kernel", *BASELINES))
