"""What a row of the table must move, and what moving that alone takes: from receipts, without a GPU.

Owns the two hundred percents of docs/benchmarks.md: speed of light (least bytes at the bandwidth of a large
copy, or operations at peak), and a bare move of as many bytes in the same cold state (``bare_moves.py``).
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from workbench.model import Contract, Problem, Target  # noqa: E402
from workbench.referee.least_bytes import Moved, least_moved  # noqa: E402
from workbench.referee.least_operations import least_flops  # noqa: E402
from workbench.referee.roofline import floor_us  # noqa: E402

RECEIPTS = HERE / "receipts"
BARE = "bare-moves*.json"
"""A receipt a card, told apart by the ``gpu`` that each names."""
PIECE = 16
"""Bytes: moves are timed in whole pieces."""
LARGE_BYTES = 64 * 10**6
"""Rows that move so much are to reach the share that follows."""
REACH = 0.92
Json = dict[str, Any]


def in_pieces(nbytes: int) -> int:
    """Bytes in whole pieces, at least one."""
    return max(-(-nbytes // PIECE), 1) * PIECE


def reckoned(receipt: Json, case: Json) -> Json:
    """``read``, ``written`` and ``floor_us`` of a receipt's case; as the receipt has it, without a graph."""
    if "graph" not in receipt["problem"]:
        return {"read": 0, "written": 0, "floor_us": case.get("floor_us", 0.0)}
    moved, operations, contract = _problem(json.dumps(receipt["problem"]), case["case"])
    target = Target.model_validate(receipt["target"])
    floor = floor_us(target, moved.total, operations, contract)
    return {"read": moved.read, "written": moved.written, "floor_us": floor}


@cache
def _problem(text: str, label: str) -> tuple[Moved, float, Contract]:
    problem = Problem.model_validate_json(text)
    case = next(case for case in problem.cases if case.label == label)
    return least_moved(problem, case), least_flops(problem, case), problem.contract


def bare_moves(card: str, folder: Path = RECEIPTS) -> dict[tuple[int, int, str], float]:
    """Microseconds by bytes read, bytes written and clock on a kind of card; empty where none were measured.

    Older receipts have CUPTI's times only; those stand for events too, which say up to 3% more.
    """
    receipts = [json.loads(path.read_text()) for path in sorted(folder.glob(BARE))]
    found: dict[tuple[int, int, str], float] = {}
    for row in (row for receipt in receipts if receipt["gpu"] == card for row in receipt["rows"]):
        moved = (row["read"], row["written"])
        if not row["suspicion"]:
            found |= {(*moved, "cupti"): row["us"], (*moved, "events"): row["us"]}
        if "events_us" in row and not row["events_suspicion"]:
            found[(*moved, "events")] = row["events_us"]
    return found


def bare_share(row: Json, bare: dict[tuple[int, int, str], float]) -> float | None:
    """Time of the bare move over the row's, both by the row's clock; None where there is none."""
    us = bare.get((in_pieces(row["read"]), in_pieces(row["written"]), row["measured"]["clock"]))
    return None if us is None else us / row["time_us"]
