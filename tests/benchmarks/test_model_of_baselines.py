"""The model of torch.compile is held against receipts, and against nothing else that lies beside them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import model_of_baselines

MEASURED = Path(__file__).parents[2] / "benchmarks" / "receipts" / "measured"


def test_the_list_of_shown_rows_is_no_receipt() -> None:
    receipt = next(MEASURED.glob("1bf2a7f04af7*.json"), None) or next(MEASURED.glob("*-nvidia-*.json"))
    alone = model_of_baselines.rows_of([receipt])
    assert alone and all(row.measured > 0 and row.modelled > 0 for row in alone)
    assert model_of_baselines.rows_of([MEASURED / "rows.json", receipt]) == alone
