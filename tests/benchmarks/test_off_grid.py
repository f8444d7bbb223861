"""Cells off the grid: the note says what the receipts say, and every cell is one problem at one shape."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import off_grid

ROOT = Path(__file__).resolve().parents[2]
RECEIPTS = ROOT / "benchmarks" / "receipts"
NOTES = ROOT / "docs" / "notes"


@pytest.mark.parametrize(
    ("receipts_of", "note"),
    [
        ("2026-11-23-h100", "2026-11-23-off-the-grid.md"),
        ("2026-11-23-h200", "2026-11-23-the-other-cells.md"),
        ("2026-11-24-h200", "2026-11-24-cells-of-other-fields.md"),
    ],
)
def test_a_notes_table_is_what_its_receipts_say(receipts_of: str, note: str) -> None:
    receipts = sorted(RECEIPTS.glob(f"{receipts_of}-off-grid-*.json"))
    assert "\n".join(off_grid.table(receipts)) in (NOTES / note).read_text()


def test_the_newest_run_of_a_cell_decides(tmp_path: Path) -> None:
    def receipt(name: str, us: float) -> Path:
        row = {"cell": "gray", "kind": "passed", "us": us, "rivals": [["eager", 90.0], ["compile", 60.0]]}
        path = tmp_path / name
        path.write_text(json.dumps({"rows": [row]}))
        return path

    *lines, newest = off_grid.table([receipt("1", 80.0), receipt("2", 40.0)])
    assert lines[2] == "| gray | 80.0 → 40.0 | 90.0 | 60.0 | 1.50 | 0% |"
    assert newest.startswith("1 cells, 1 with times: geometric mean 1.50") and newest.endswith("none")
    assert "below 0.97: gray 0.75" in off_grid.table([receipt("3", 80.0)])[-1]


@pytest.mark.many(5)
@pytest.mark.parametrize("cell", ["gray", "embed_norm", "decode_rotary"])
def test_a_cell_is_one_problem_at_one_shape(cell: str) -> None:
    assert cell in off_grid.names()
    assert len(off_grid.problem_of(cell).cases) == 1
