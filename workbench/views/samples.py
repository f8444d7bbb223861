"""The raw samples behind a measured time, read from its receipt when somebody asks. Never writes.

Receipts lie beside the journal; a tree alone has none. Owns the words for a receipt that cannot be read.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError
from workbench.model import BranchId, Evaluation
from workbench.referee.clock.samples import RawTimes, Track
from workbench.referee.receipts import read_receipt
from workbench.tree import Tree
from workbench.views.phrases import number_text, plural
from workbench.views.plots import tracks

Json = dict[str, Any]
MOST = 400
"""Samples drawn a contestant; of more, every second, third, ... block is shown."""


def samples_json(tree: Tree, branch: BranchId, folder: Path | None) -> Json:
    """``cases``: a drawing a shape; ``words``: where they are from, or why there are none.

    Raises ``SessionError`` for an unknown branch.
    """
    name = receipt_of(tree.node(branch).evaluation)
    if not name:
        return {"branch": branch, "cases": [], "words": "No samples: this time was not measured."}
    if folder is None:
        return {"branch": branch, "cases": [], "words": f"The samples are in {name}, beside the journal."}
    try:
        receipt = read_receipt(folder / name)
    except WorkbenchError as error:
        return {"branch": branch, "cases": [], "words": str(error)}
    made = [_case(case.raw) for case in receipt.cases if case.raw.tracks]
    return {"branch": branch, "cases": made, "words": f"From {name}, made {receipt.made}."}


def receipt_of(evaluation: Evaluation | None) -> str:
    """The receipt's file below the session's folder; empty where nothing was measured."""
    found = [time.measured.receipt for time in evaluation.times if time.measured] if evaluation else []
    return next((name for name in found if name), "")


def _case(raw: RawTimes) -> Json:
    listed = [_track(track, place == 0) for place, track in enumerate(raw.tracks)]
    blocks = plural(len(raw.tracks[0].blocks), "block")
    return {
        "case": raw.case,
        "words": f"{blocks} of paired samples, microseconds, caches cold",
        "drawing": tracks(listed),
    }


def _track(track: Track, mine: bool) -> Json:
    step = -(-2 * len(track.blocks) // MOST)
    shown = [sample for pair in track.blocks[::step] for sample in pair]
    low, high = _scale(shown)
    beyond = [sample for sample in shown if sample > high]
    return {
        "name": "this kernel" if mine else track.name,
        "mine": mine,
        "median_us": statistics.median(track.samples),
        "low_us": low,
        "high_us": high,
        "above": f"; {len(beyond)} above, to {number_text(max(beyond))}" if beyond else "",
        "samples_us": shown,
    }


def _scale(samples: list[float]) -> tuple[float, float]:
    """From the least to the most, or to where all but one in fifty lie when the rest is far off."""
    ordered = sorted(samples)
    low, high, usual = ordered[0], ordered[-1], ordered[(len(ordered) - 1) * 49 // 50]
    return (low, usual) if high - low > 2 * (usual - low) > 0 else (low, high)
