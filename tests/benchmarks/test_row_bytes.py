"""What rows must move, the kernels that only move it, and the share of them that a row reaches."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import bare_moves  # noqa: E402
import measured_rows  # noqa: E402
import row_bytes  # noqa: E402

from workbench.model import H100, TensorMeta  # noqa: E402
from workbench.plan.interpret import interpret  # noqa: E402
from workbench.plan.parse import parse  # noqa: E402


def test_every_committed_row_says_what_it_moves() -> None:
    receipts, _ = measured_rows.read_measured(measured_rows.MEASURED)
    rows = {(row["problem"], row["shape"]): row for row in measured_rows.best_measured(receipts)}
    assert all(row["read"] > 0 and row["written"] > 0 for row in rows.values())
    softmax = rows["softmax", "4096x4096"]
    assert (softmax["read"], softmax["written"]) == (4096 * 4096 * 4, 4096 * 4096 * 4)
    looked_up = rows["embedding", "512,32000x4096"]
    assert looked_up["read"] == 512 * 8 + 512 * 4096 * 4, "not the whole table"


OWED = {("NVIDIA H200", "wide_pool", "16x64x512x512")}
"""Rows whose bare moves nobody has measured yet: the page has a dash there, and counts them as neither."""


def test_every_committed_row_from_16_mib_on_has_a_bare_move_of_its_card() -> None:
    receipts, _ = measured_rows.read_measured(measured_rows.MEASURED)
    rows = [row for row in measured_rows.best_measured(receipts) if bare_moves.moves([row])]
    bare = {card: row_bytes.bare_moves(card) for card in {row["card"] for row in rows}}
    lacking = {
        (row["card"], row["problem"], row["shape"])
        for row in rows
        if row_bytes.bare_share(row, bare[row["card"]]) is None
    }
    assert lacking == OWED, "bare_moves.py is to run again on that card; what is measured is owed no longer"


def test_a_move_is_timed_once_in_whole_pieces_from_16_mb_on() -> None:
    mb = 2**20
    rows = [{"read": 8 * mb, "written": 8 * mb}, {"read": 8 * mb - 3, "written": 8 * mb - 15},
            {"read": 64 * mb, "written": 4}, {"read": 8 * mb, "written": 4}]  # fmt: skip
    assert bare_moves.moves(rows) == [(8 * mb, 8 * mb), (64 * mb, 16)]


@pytest.mark.parametrize("kernel", bare_moves.KERNELS)
def test_a_grid_covers_what_is_read_and_what_is_written(kernel: tuple[int, int]) -> None:
    threads, each = kernel
    for read, written in ((4 * 1001, 4), (4, 4 * 1001), (4 * 4096, 4 * 4096)):
        metas = {
            name: TensorMeta(dtype="f32", shape=(elements,), strides=(1,))
            for name, elements in (("x", read), ("like", written))
        }
        launch = interpret(parse(bare_moves.source(threads, each)), metas, H100).launches[0]
        assert launch.grid[0] * threads * each * 4 >= max(read, written)
        assert (launch.grid[0] - 1) * threads * each * 4 < max(read, written)


def test_a_share_is_that_of_the_same_bytes_on_the_same_card(tmp_path: Path) -> None:
    rows = [{"read": 64, "written": 16, "us": 20.0, "suspicion": ""},
            {"read": 128, "written": 16, "us": 1.0, "suspicion": "the clocks disagree"}]  # fmt: skip
    other = [rows[0] | {"us": 10.0}]
    (tmp_path / "bare-moves.json").write_text(json.dumps({"gpu": "one", "rows": rows}))
    (tmp_path / "bare-moves-another.json").write_text(json.dumps({"gpu": "another", "rows": other}))
    bare = row_bytes.bare_moves("one", tmp_path)
    assert row_bytes.bare_share({"read": 61, "written": 4, "time_us": 25.0}, bare) == 0.8
    assert row_bytes.bare_share({"read": 128, "written": 16, "time_us": 25.0}, bare) is None
    assert row_bytes.bare_moves("another", tmp_path) == {(64, 16): 10.0}
    assert row_bytes.bare_moves("a third", tmp_path) == {}
