"""A benchmark that swallowed an error says so by its exit code: on a card nobody reads its log in time."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import compiled_first
import first_branch
import gpu_phases
import grid
import nine_figures
import on_the_gpu
import remeasure
import sanitizer_suite
import vectors

FAILS = [sys.executable, "-c", "import sys; sys.exit(3)"]
FINE = [sys.executable, "-c", "pass"]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("WORKBENCH_RECEIPTS", "WORKBENCH_PARTS", "WORKBENCH_CACHE"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path


def ends_with(program: Any, words: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "argv", ["benchmark", *words])
    with pytest.raises(SystemExit) as end:
        program.main()
    return str(end.value)


def test_a_search_that_ended_badly_has_no_measured_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without IPython: the phase was `ok 2.8 s`."""
    monkeypatch.setattr(first_branch, "run", lambda op, *_: {"op": op, "failed": "the search ended with 1"})
    said = ends_with(first_branch, ["softmax", "layer_norm"], monkeypatch)
    assert said == "no measured branch: softmax, layer_norm"


def test_a_search_that_hangs_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_branch, "kept", lambda command: ["sleep", "60"])
    options = argparse.Namespace(device="null", rounds=1, branches=1, cold=True, seconds=-59.0)
    row = first_branch.run("softmax", options, tmp_path)
    assert row == {"op": "softmax", "failed": "the search took longer than 1 s"}


def test_a_part_that_failed_is_told_and_so_is_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(receipt: Any, given: Any) -> None:
        raise RuntimeError("no card")

    monkeypatch.setitem(on_the_gpu.PARTS, "probe", breaks)
    assert on_the_gpu.run_part("probe", argparse.Namespace()) == 1
    monkeypatch.setitem(on_the_gpu.PARTS, "probe", lambda receipt, given: receipt.put("usable", "yes"))
    assert on_the_gpu.run_part("probe", argparse.Namespace()) == 0
    codes = {"probe": 0, "clock": 1}
    monkeypatch.setattr(on_the_gpu, "wait_kept", lambda command, limit: codes[command[3]])
    words = argparse.Namespace(parts="probe,clock", seconds=100.0, ops="", seeds=1, slow=False)
    assert on_the_gpu.run_all(words) == ["clock"]
    words.seconds = 1.0
    assert on_the_gpu.run_all(words) == ["probe", "clock"], "for want of time"
    monkeypatch.setattr(on_the_gpu, "run_all", lambda given: ["clock"])
    assert ends_with(nine_figures, ["--parts", "clock"], monkeypatch) == "not whole: clock"
    assert json.loads(Path(on_the_gpu.os.environ["WORKBENCH_RECEIPTS"], "figures.json").read_text())


@pytest.mark.slow
def test_baselines_that_do_not_compile_are_named() -> None:
    programs = {"fine": FINE, "broken": FAILS, "slow": [sys.executable, "-c", "import time; time.sleep(60)"]}
    assert compiled_first.warm_all(programs, 3.0) == ["broken", "slow"]


def test_the_grid_begins_no_op_that_it_cannot_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert grid.fits("silu_mul", 30.0) and not grid.fits("kl_div", 100.0)
    assert "kl_div: no time left (100 s, it takes about 138)" in capsys.readouterr().out
    assert set(grid.SECONDS) | {"linear_rowsum"} == set(grid.ops()), "another op's seconds are a guess"


def test_the_grid_ends_badly_where_an_op_has_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(op: str, receipt: Any, *devices: Any) -> None:
        if op == "silu_mul":
            raise RuntimeError("no such op")
        receipt.add("rows", {"op": op, "kind": "passed" if op == "argmax" else "no correct kernel"})

    async def close() -> None:
        await asyncio.sleep(0)

    device = SimpleNamespace(keep_receipts=lambda folder: None, close=close)
    monkeypatch.setattr(grid.gpu, "open_device", lambda **options: device)
    monkeypatch.setattr(grid, "measure", measured)
    words = ["--phase", "measure", "--seconds", "500", "--ops", "argmax,silu_mul,rotary,kl_div,kl_div"]
    assert ends_with(grid, words, monkeypatch).startswith("no times: silu_mul, rotary, kl_div")


def test_vectors_without_times_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def timed(problem: Any, tried: Any, closer: bool, steps: bool) -> int:
        await asyncio.sleep(0)
        return 1

    monkeypatch.setattr(vectors, "timed", timed)
    said = ends_with(vectors, ["softmax", "fusion=all", "fusion=none"], monkeypatch)
    assert said.startswith("1 of 2 kernels are not right")


def test_a_file_that_is_judged_wrongly_ends_the_sanitizer_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizer_suite, "all_files", lambda: [SimpleNamespace(path=Path("welford.cu"))])
    row = {"file": "honest/welford", "right": False}
    monkeypatch.setattr(sanitizer_suite, "looked_at", lambda file: row)
    assert ends_with(sanitizer_suite, [], monkeypatch) == "not as wanted: honest/welford"


def test_what_is_measured_again_is_a_committed_receipts_kernel(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = list(gpu_phases.LONG_AUTOTUNE)
    programs = remeasure.baselines(names)
    assert len(programs) == 12 and all("--warm" in words for words in programs.values())
    asked = []

    def judged(device: Any, problem: Any, kernel: Any, full: bool) -> dict[str, Any]:
        asked.append((problem, kernel))
        return {"kind": "passed" if len(asked) == 1 else "crashed", "s": 1.0, "times": ["a line"]}

    async def close() -> None:
        await asyncio.sleep(0)

    device = SimpleNamespace(keep_receipts=lambda folder: None, close=close)
    monkeypatch.setattr(remeasure.gpu, "open_device", lambda **options: device)
    monkeypatch.setattr(remeasure.gpu, "judged_row", judged)
    assert remeasure.run(names, time.monotonic() + 60) == names[1:]
    known = remeasure.read_receipt(remeasure.MEASURED / names[0])
    assert asked[0] == (known.problem, known.kernel)
    assert remeasure.run(names, time.monotonic() - 1) == names, "none is begun without time"
