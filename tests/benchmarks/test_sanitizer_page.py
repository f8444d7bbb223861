"""What docs/gpu.md says of compute-sanitizer is what the committed receipt says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import sanitizer_suite


def test_the_page_is_what_the_receipt_says() -> None:
    page, receipt = sanitizer_suite.PAGE.read_text(), json.loads(sanitizer_suite.RECEIPT.read_text())
    assert sanitizer_suite.with_sentence(page, receipt) == page, "python benchmarks/sanitizer_suite.py --page"
    assert {Path(row["file"]).name for row in receipt["rows"]} == set(sanitizer_suite.NAMES)


def test_a_file_that_came_out_otherwise_is_named() -> None:
    right = {"right": True, "beyond": "", "message": ""}
    rows = [
        {"file": "cheats/a", "got": "hazard out_of_bounds", **right},
        {"file": "honest/b", "got": "nothing", **right},
        {"file": "cheats/c", "got": "nothing", **right, "beyond": "racecheck follows shared memory only"},
        {"file": "cheats/d", "got": "not looked", **right, "right": False, "message": "no tool"},
    ]
    said = sanitizer_suite.sentence({"date": "2026-11-22", "rows": rows})
    assert "3 of 4 files" in said and "1 hazards found" in said and "(out of bounds)" in said
    assert said.endswith("Not as wanted: `cheats/d` (not looked: no tool).\n")
