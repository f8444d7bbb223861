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
        "figures/figures.json": "first try",
        "figures-2/figures.json": "second try",
        "figures-2/parts/gpu_probe.json": "{}",
        "first-branch/first_branch.json": "no measured branch",
        "cheats/cheats-cuda.json": "one passed",
        "sanitizer/sanitizer-cuda.json": "half",
        "grid-2/parts/gpu_judged.json": "{}",
    }
    archive = packed(tmp_path / "on_the_gpu.tgz", states, files)
    assert take_phases.take(archive, tmp_path / "into") == [
        "2026-11-22-h100-figures.json",
        "cheats-cuda.json",
    ]
    assert (tmp_path / "into" / "2026-11-22-h100-figures.json").read_text() == "second try"
    assert sorted(p.name for p in (tmp_path / "into").iterdir())[1:] == ["cheats-cuda.json"]
    assert take_phases.told(archive)[1] == "first-branch    failed             1.0 s  no such thing"


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
