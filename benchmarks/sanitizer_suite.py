"""Runs cheats that are undefined behaviour, and some honest kernels, under compute-sanitizer on a GPU.

Usage, from the repository's root: ``python benchmarks/sanitizer_suite.py [NAME...]``. Prints a line a kernel
and writes ``sanitizer-cuda.json`` into ``benchmarks/receipts``, or into the folder ``$WORKBENCH_RECEIPTS``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "referee")]

from cheat_files import CheatFile, all_files  # noqa: E402

from workbench.model import H100  # noqa: E402
from workbench.profile.sanitizer import NotLooked, sanitized  # noqa: E402

NAMES = (
    "writes_one_past", "reads_one_past", "no_alignment_check", "missing_barrier", "divergent_barrier",
    "missing_lanes", "uninitialised_workspace", "inherits_output", "welford", "tiled_transpose", "last_block",
    "workspace",
)  # fmt: skip
AT_ONCE = 6


def looked_at(file: CheatFile) -> dict[str, Any]:
    """One kernel under all tools."""
    started = time.perf_counter()
    try:
        hazard = sanitized(file.problem, file.kernel, H100)
        got, message = (f"hazard {hazard.hazard}", hazard.message) if hazard else ("nothing", "")
    except NotLooked as why:
        got, message = "not looked", str(why)
    honest = file.label.startswith("honest/")
    right = got == "nothing" if honest else got in file.expect
    seconds = round(time.perf_counter() - started, 1)
    print(f"{'ok ' if right else 'BAD'} {file.label:32}{got:24}{seconds:5.1f} s  {message[:200]}", flush=True)
    return {"file": file.label, "expected": list(file.expect), "got": got, "message": message, "s": seconds}


def main() -> None:
    """Look at them, a few at once: a tool spends most of its time starting."""
    names = sys.argv[1:] or NAMES
    files = [file for file in all_files() if file.path.stem in names]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        rows = list(threads.map(looked_at, files))
    folder = Path(os.environ.get("WORKBENCH_RECEIPTS", ROOT / "benchmarks" / "receipts"))
    folder.mkdir(parents=True, exist_ok=True)
    receipt = {
        "date": time.strftime("%Y-%m-%d"),
        "repeat": "python benchmarks/sanitizer_suite.py",
        "rows": rows,
    }
    (folder / "sanitizer-cuda.json").write_text(json.dumps(receipt, indent=1) + "\n")


if __name__ == "__main__":
    main()
