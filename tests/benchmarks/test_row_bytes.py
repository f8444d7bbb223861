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


def test_every_committed_row_from_16_mib_on_has_a_bare_move_of_its_card() -> None:
    receipts, _ = measured_rows.read_measured(measured_rows.MEASURED)
    rows = [row for row in measured_rows.best_measured(receipts) if bare_moves.moves([row])]
    bare = {card: row_bytes.bare_moves(card) for card in {row["card"] for row in rows}}
    lacking = {
        (row["card"], row["problem"], row["shape"])
        for row in rows
        if row_bytes.bare_share(row, bare[row["card"]]) is None
    }
    assert not lacking, "bare_moves.py is to run again on that card"


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


def test_a_share_is_that_of_the_same_bytes_on_the_same_card_by_the_same_clock(tmp_path: Path) -> None:
    rows = [{"read": 64, "written": 16, "us": 20.0, "suspicion": ""},
            {"read": 128, "written": 16, "us": 1.0, "suspicion": "the clocks disagree"}]  # fmt: skip
    other = [rows[0] | {"us": 10.0, "events_us": 11.0, "events_suspicion": ""},
             rows[1] | {"events_us": 30.0, "events_suspicion": ""}]  # fmt: skip
    (tmp_path / "bare-moves.json").write_text(json.dumps({"gpu": "one", "rows": rows}))
    (tmp_path / "bare-moves-another.json").write_text(json.dumps({"gpu": "another", "rows": other}))
    one, another = (row_bytes.bare_moves(card, tmp_path) for card in ("one", "another"))
    assert row_bytes.bare_moves("a third", tmp_path) == {}

    def share(bare: dict[tuple[int, int, str], float], read: int, clock: str) -> float | None:
        row = {"read": read, "written": 4, "time_us": 25.0, "measured": {"clock": clock}}
        return row_bytes.bare_share(row, bare)

    assert (share(one, 61, "cupti"), share(one, 61, "events"), share(one, 128, "events")) == (0.8, 0.8, None)
    assert (share(another, 61, "cupti"), share(another, 61, "events")) == (0.4, 0.44)
    assert (share(another, 128, "cupti"), share(another, 128, "events")) == (None, 1.2)


def test_only_rows_of_a_card_are_moved_on_it_or_all_where_it_has_none() -> None:
    rows = [{"card": "one", "read": 1}, {"card": "another", "read": 2}]
    assert bare_moves.of_this_card(rows, "one") == rows[:1]
    assert bare_moves.of_this_card(rows, "a third") == rows
