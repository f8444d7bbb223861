"""Caches that travel: what a hit reads comes out as it went in, in archives that are small enough."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import baseline_caches as caches


@pytest.fixture
def root(tmp_path: Path) -> Path:
    noise = random.Random(1)
    for name in ("inductor/fxgraph/ab/graph", "inductor/ab/code.py", "inductor/ab/code.best_config",
                 "triton/K1/k.cubin", "triton/K1/k.json", "triton/K1/k.ttir", "triton/K1/tmp.pid_1",
                 "triton/K2/k.cubin", "triton/K2/k.ptx", "nvrtc/ours"):  # fmt: skip
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(noise.randbytes(20_000))
    return tmp_path / "root"


def test_what_a_hit_reads_comes_out_as_it_went_in(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    found = caches.pack(root, out, most_mib=1.0, a_file_mib=0.05)
    assert (found.entries, found.left_out) == (5, 0) and len(found.files) == 3
    assert all(file.stat().st_size <= 0.05 * caches.MIB for file in found.files)
    assert caches.unpack(out, tmp_path / "next") == 3
    there = {path.relative_to(tmp_path / "next") for path in (tmp_path / "next").rglob("*") if path.is_file()}
    assert {str(path) for path in there} == {
        "inductor/fxgraph/ab/graph", "inductor/ab/code.py",
        "triton/K1/k.cubin", "triton/K1/k.json", "triton/K2/k.cubin",
    }  # fmt: skip
    assert all((tmp_path / "next" / path).read_bytes() == (root / path).read_bytes() for path in there)


def test_what_has_no_room_is_left_out_and_counted(root: Path, tmp_path: Path) -> None:
    found = caches.pack(root, tmp_path, most_mib=0.05, a_file_mib=0.045)
    assert (found.entries, found.left_out, len(found.files)) == (2, 3, 1)
    assert caches.pack(root, tmp_path, most_mib=0.01).files == ()
    assert caches.pack(tmp_path / "nothing", tmp_path, 1.0).entries == 0
