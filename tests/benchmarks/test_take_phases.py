"""Of each phase the last try that came to its end is taken; a failure only where it is a finding."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import gpu_phases
import take_phases

DAY = 1795305600  # 2026-11-22


def packed(path: Path, states: dict[str, str], files: dict[str, str]) -> Path:
    rows = [
        {"phase": name, "state": state, "seconds": 1.0, "note": "no such thing" * (state == "failed")}
        for name, state in states.items()
    ]
    with tarfile.open(path, "w:gz") as tar:
        for order, (name, text) in enumerate({"session.json": json.dumps(rows), **files}.items()):
            member = tarfile.TarInfo(f"on_the_gpu/{name}")
            member.size, member.mtime = len(text.encode()), DAY + order
            tar.addfile(member, io.BytesIO(text.encode()))
    return path


def test_what_is_taken_and_what_is_not(tmp_path: Path) -> None:
    states = {"figures": "ok", "first-branch": "failed", "cheats": "failed", "sanitizer": "cut off"}
    files = {
        "figures/figures.json": '{"gpu": "NVIDIA H100 80GB HBM3", "try": 1}',
        "figures-2/figures.json": '{"gpu": "NVIDIA H100 80GB HBM3", "try": 2}',
        "figures-2/parts/gpu_probe.json": "{}",
        "first-branch/first_branch.json": '"no measured branch"',
        "cheats/cheats-cuda.json": '"one passed"',
        "sanitizer/sanitizer-cuda.json": '{"gpu": "NVIDIA',
        "grid-2/parts/gpu_judged.json": "{}",
    }
    archive = packed(tmp_path / "on_the_gpu.tgz", states, files)
    assert take_phases.take(archive, tmp_path / "into") == [
        "2026-11-22-h100-figures.json",
        "cheats-cuda.json",
    ]
    assert '"try": 2' in (tmp_path / "into" / "2026-11-22-h100-figures.json").read_text()
    assert sorted(p.name for p in (tmp_path / "into").iterdir())[1:] == ["cheats-cuda.json"]
    assert take_phases.told(archive)[1] == "first-branch    failed             1.0 s  no such thing"


def test_what_is_kept_a_card_goes_to_the_file_of_that_card(tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    (into / "bare-moves.json").write_text('{"gpu": "NVIDIA H100 80GB HBM3"}')

    def taken(name: str, card: str, **files: str) -> list[str]:
        bare = {"bare-moves/bare-moves.json": json.dumps({"gpu": card, "from": name})}
        more = {f"{phase}/{phase}.json".replace("_", "-"): text for phase, text in files.items()}
        states = dict.fromkeys(("bare-moves", "search-cost", "second-run"), "ok")
        return take_phases.take(packed(tmp_path / f"{name}.tgz", states, bare | more), into)

    assert taken("a", "NVIDIA H100 80GB HBM3") == ["bare-moves.json"]
    # What names no card itself is of the only one that the archive names.
    assert taken("b", "NVIDIA H200", second_run="{}") == [
        "bare-moves-h200.json",
        "2026-11-22-h200-second-run.json",
    ]
    assert taken("c", "NVIDIA H200", search_cost='{"gpu": "NVIDIA GeForce RTX 4090"}', second_run="{}") == [
        "bare-moves-h200.json",
        "search-cost-geforce-rtx-4090.json",
        "2026-11-22-gpu-second-run.json",
    ]
    assert take_phases.card_of(b'{"machine": "16 cores"}') == "", "a machine in words names no card"
    assert json.loads((into / "bare-moves.json").read_text())["from"] == "a"
    assert json.loads((into / "bare-moves-h200.json").read_text())["from"] == "c"


def test_only_phases_that_there_are_and_receipts_that_the_pages_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {pattern.partition("/")[0] for pattern in take_phases.TAKEN} <= set(gpu_phases.PHASES)
    assert set(gpu_phases.PHASES) >= take_phases.FINDINGS
    archive = packed(tmp_path / "a.tgz", {"cheats": "ok"}, {"cheats/cheats-cuda.json": "{}"})
    monkeypatch.setattr(sys, "argv", ["take", str(archive), "--into", str(tmp_path / "elsewhere")])
    monkeypatch.setattr(take_phases.subprocess, "run", None)
    take_phases.main()
    assert capsys.readouterr().out.endswith("taken cheats-cuda.json\n")
