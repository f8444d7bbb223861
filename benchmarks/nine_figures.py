"""The nine figures that the H100's part of the workbench is measured by: one command, one run, one receipt.

Owns which parts of ``on_the_gpu.py`` are run and what each figure is made of. Usage, on a machine with an
NVIDIA GPU: ``python benchmarks/nine_figures.py [--seconds 240]``; it writes ``figures.json`` into the folder
that ``$WORKBENCH_RECEIPTS`` names, which ``table.py`` shows once it is committed as
``receipts/DATE-CARD-figures.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

PARTS = ("probe", "clock", "routes", "address", "memory", "compared")
Json = dict[str, Any]


def figures_of(parts: dict[str, Json]) -> list[Json]:
    """A row a figure: ``what``, ``reach``, ``seen`` in words, ``met``; None where it was not measured."""
    rows = []
    for what, reach, judge in FIGURES:
        try:
            met, seen = judge(parts)
        except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
            met, seen = None, f"not measured ({type(error).__name__}: {error})"
        rows.append({"what": what, "reach": reach, "seen": seen, "met": met})
    return rows


Found = tuple[bool, str]


def _verdict(parts: Json) -> Found:
    s = parts["compared"]["median_s"]
    return s <= 1.0, f"{s:.2f} s"


def _ratio(parts: Json) -> Found:
    built, ratio = parts["compared"]["load_inline_s"], parts["compared"]["ratio"]
    return ratio >= 20, f"{ratio:.0f} ({built:.1f} s)"


def _timed(parts: Json) -> Found:
    s = parts["compared"]["timed_median_s"]
    return s <= 4.0, f"{s:.2f} s, against eager and compile"


def _same(parts: Json) -> Found:
    return _rate(parts["clock"]["figures"]["a_against_a"], 0.95)


def _slower(parts: Json) -> Found:
    return _rate(parts["clock"]["figures"]["two_percent"], 0.90)


def _rate(found: Json, least: float) -> Found:
    return found["found"] >= least * found["runs"], f"{found['found']} of {found['runs']}"


def _copy(parts: Json) -> Found:
    found = parts["clock"]["figures"]["copy_bandwidth"]
    ours, torchs = found["ours_tb_s"], found["torch_tb_s"]
    return ours / torchs >= 0.97, f"{ours:.2f} and {torchs:.2f} TB/s, {ours / torchs:.3f}"


def _launch(parts: Json) -> Found:
    found = parts["routes"]["figures"]["host_costs"]["median_us"]
    ours, torchs = found["plan runner"], found["torch.softmax"]
    told = f"{ours:.1f} us; torch.softmax {torchs:.1f}, the driver's launch alone {found['bare launch']:.1f}"
    return ours <= 6.0 and ours < torchs, told


def _recovery(parts: Json) -> Found:
    rows = parts["address"]["rows"]
    slowest = max(row["takeover_s"] for row in rows)
    right = all(row["bad"] == "crashed" and row["next"] == "passed" for row in rows)
    return slowest <= 0.5 and right, f"{1000 * slowest:.1f} ms, the longest of {len(rows)}"


def _memory(parts: Json) -> Found:
    row, clock = parts["memory"]["row"], parts["clock"]["figures"]["memory_added"]
    judged, timed = parts["memory"]["beyond_share"], clock["added_share"]
    told = f"{judged:.1%} while checking, {timed:.1%} while timing; {row['kind']}"
    return max(judged, timed) <= 0.10 and row["kind"] == "passed", told


FIGURES = (
    (
        "compile to verdict (5 seeds, 4 shapes, no timing), small kernel, warm worker, median",
        "<= 1 s",
        _verdict,
    ),
    ("the same candidate as a `load_inline` extension", "ratio >= 20", _ratio),
    ("compile to verdict with full timing, median", "<= 4 s", _timed),
    ("a kernel against itself", "SAME in 95 of 100", _same),
    ("2% more to do for a kernel of 100 us", "found in 90 of 100", _slower),
    ("copy kernel's bandwidth against torch's copy", "within 3%", _copy),
    ("plan launch, host side, one kernel, output allocated", "<= 6 us, below torch's op", _launch),
    ("recovery after an illegal address, to the next evaluation", "<= 0.5 s", _recovery),
    ("memory the referee adds at an output of 6 GB", "<= 10%, judged", _memory),
)


def main() -> None:
    """Run the parts, gather, print, write."""
    import on_the_gpu

    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--parts", default=",".join(PARTS))
    given = parser.parse_args()
    started, began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic()
    words = argparse.Namespace(parts=given.parts, seconds=given.seconds, ops="", seeds=0, slow=False)
    failed = on_the_gpu.run_all(words)
    parts = {}
    for part in given.parts.split(","):
        path = on_the_gpu.workplace() / f"gpu_{part}.json"
        if path.is_file():
            parts[part] = _shortened(json.loads(path.read_text()))
    rows = figures_of(parts)
    for row in rows:
        mark = {True: "met", False: "MISSED", None: "–"}[row["met"]]
        print(f"{mark:<8}{row['what']:<86}{row['reach']:<26}{row['seen']}", flush=True)
    card = parts.get("probe", {}).get("card", {})
    receipt = {
        "what": "the nine figures, one run on one card",
        "command": "python benchmarks/nine_figures.py",
        "started": started,
        "seconds": round(time.monotonic() - began, 1),
        "gpu": card.get("target", {}).get("name", "unknown"),
        "torch": card.get("torch", "unknown"),
        "figures": rows,
        "parts": parts,
    }
    folder = Path(os.environ.get("WORKBENCH_RECEIPTS") or ROOT / "out" / "receipts")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures.json").write_text(json.dumps(receipt, indent=1) + "\n")
    if failed:  # a figure that is missed is a finding, one that was not measured is none
        raise SystemExit(f"not whole: {', '.join(failed)}")


def _shortened(part: Json) -> Json:
    """Without the hundreds of single runs and whole evaluations, which ``on_the_gpu.tgz`` keeps."""
    for found in part.get("figures", {}).values():
        if isinstance(found, dict):
            found.pop("runs_detail", None)
            found.pop("measured", None)
    part.get("row", {}).pop("evaluation", None)
    for name in ("rows", "timed_rows"):
        for row in part.get(name, []):
            if isinstance(row.get("outcome"), dict) and row["kind"] == "passed":
                row.pop("outcome")
    return part


if __name__ == "__main__":
    main()
