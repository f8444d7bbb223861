"""A session that waits for a person gets its slow baselines; on a pretended GPU."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from softmax_problem import PROBLEM

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import baselines_followed

from workbench.devices import background
from workbench.devices.cuda import CudaDevice
from workbench.model import Case
from workbench.referee import gpu_baselines
from workbench.referee.gpu_judge import GpuOptions

CASE = Case(label="8x64", sizes=(("s0", 8), ("s1", 64)))


@pytest.mark.slow
def test_the_journal_says_when_kernels_were_held_against_more(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "QUIET_S", 0.01)
    monkeypatch.setattr(baselines_followed, "AFTER_S", 0.1)
    problem = PROBLEM.model_copy(update={"cases": (CASE,)})
    options = GpuOptions(hazards=False, slow_baselines=True)
    device = CudaDevice(options=options, serve="pretended_gpu:serve")
    try:
        found = baselines_followed.watched(problem, device, tmp_path / "s", 120.0)
    finally:
        asyncio.run(device.close())
    assert found["judged"] and all("compile max-autotune" not in row["baselines"] for row in found["judged"])
    assert found["followed"]
    assert {row["branch"] for row in found["followed"]} <= {row["branch"] for row in found["judged"]}
    for row in found["followed"]:
        assert set(gpu_baselines.LATER) <= set(row["baselines"]) and row["fastest"][0].startswith("8x64: ")


def test_none_that_follow_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = {"branch": "b1", "at_s": 1.0, "baselines": ["eager"]}
    monkeypatch.delenv("WORKBENCH_RECEIPTS", raising=False)
    monkeypatch.setattr(baselines_followed, "open_device_named", lambda name: None)
    monkeypatch.setattr(baselines_followed, "watched", lambda *_: {"judged": [judged], "followed": []})
    monkeypatch.setattr(sys, "argv", ["benchmark", "softmax"])
    with pytest.raises(SystemExit, match="no baselines followed: softmax"):
        baselines_followed.main()
