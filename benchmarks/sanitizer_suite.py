"""Runs cheats that are undefined behaviour, and some honest kernels, under compute-sanitizer on a GPU.

Usage, from the repository's root: ``python benchmarks/sanitizer_suite.py [NAME...]``. Prints a line a kernel
and writes ``sanitizer-cuda.json`` into ``benchmarks/receipts``, or into the folder ``$WORKBENCH_RECEIPTS``.
``--page`` writes the line of docs/gpu.md from the committed receipt, without a GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "referee")]

from cheat_files import CheatFile, all_files  # noqa: E402

from workbench.model import H100  # noqa: E402
from workbench.profile.sanitizer import NotLooked, Run, run_tool, sanitized  # noqa: E402

NAMES = (
    "writes_one_past", "reads_one_past", "no_alignment_check", "missing_barrier", "divergent_barrier",
    "missing_warp_sync", "uninitialised_workspace", "inherits_output", "past_shared_array",
    "uninitialised_shared", "race_between_blocks", "racing_sums", "welford", "tiled_transpose", "last_block",
    "workspace", "aligned_vectors", "partial_mask",
)  # fmt: skip
BEYOND = {
    "uninitialised_shared": "initcheck follows global memory only",
    "race_between_blocks": "racecheck follows shared memory only",
    "racing_sums": "racecheck follows shared memory only",
}
"""What the tools do not claim to see; the emulator does. A kernel that never ends is not among the names:
it ends no tool either, and is turned away before anybody would ask for one."""
AT_ONCE = 6
PAGE = ROOT / "docs" / "gpu.md"
RECEIPT = ROOT / "benchmarks" / "receipts" / "sanitizer-cuda.json"
BEGIN, END = "<!-- written by benchmarks/sanitizer_suite.py -->", "<!-- end of sanitizer -->"


def looked_at(file: CheatFile) -> dict[str, Any]:
    """One kernel under all tools."""
    started = time.perf_counter()
    try:
        hazard = sanitized(file.problem, file.kernel, H100, run=kept(file.path.stem))
        got, message = (f"hazard {hazard.hazard}", hazard.message) if hazard else ("nothing", "")
    except NotLooked as why:
        got, message = "not looked", str(why)
    honest = file.label.startswith("honest/")
    beyond = BEYOND.get(file.path.stem, "")
    right = got == "nothing" if honest else got in file.expect or (bool(beyond) and got == "nothing")
    seconds = round(time.perf_counter() - started, 1)
    print(f"{'ok ' if right else 'BAD'} {file.label:32}{got:24}{seconds:5.1f} s  {message[:200]}", flush=True)
    told = {"file": file.label, "expected": list(file.expect), "beyond": beyond, "right": right}
    return {**told, "got": got, "message": message, "s": seconds}


def kept(name: str) -> Run:
    """Start a tool, and keep what it prints where receipts go to another folder than the repository's."""

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        done = run_tool(command)
        if place := os.environ.get("WORKBENCH_RECEIPTS"):
            folder = Path(place) / "sanitizer"
            folder.mkdir(parents=True, exist_ok=True)
            tool = command[command.index("--tool") + 1]
            (folder / f"{name}-{tool}.txt").write_text(f"{done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    return run


def sentence(receipt: dict[str, Any]) -> str:
    """What came of the last run on a card, as docs/gpu.md has it."""
    rows = receipt["rows"]
    right = [row for row in rows if row["right"]]
    found = [row for row in right if row["got"].startswith("hazard ")]
    honest = [row for row in right if row["file"].startswith("honest/")]
    beyond = [row for row in right if row["beyond"] and row["got"] == "nothing"]
    kinds = ", ".join(sorted({row["got"].removeprefix("hazard ").replace("_", " ") for row in found}))
    bad = "".join(
        f" Not as wanted: `{row['file']}` ({row['got']}: {row['message'][:120]})."
        for row in rows
        if not row["right"]
    )
    return (
        f"On an H100, {receipt['date']}, {len(right)} of {len(rows)} files of the suite came out as wanted\n"
        f"(`benchmarks/receipts/sanitizer-cuda.json`): {len(found)} hazards found\n"
        f"({kinds}), nothing said of {len(honest)} honest kernels\n"
        f"and of {len(beyond)} cheats that no tool of its claims to see.{bad}\n"
    )


def with_sentence(page: str, receipt: dict[str, Any]) -> str:
    """The page with its generated line replaced."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{sentence(receipt)}{END}{rest.partition(END)[2]}"


def write_page() -> None:
    """From the committed receipt."""
    receipt = json.loads(RECEIPT.read_text())
    PAGE.write_text(with_sentence(PAGE.read_text(encoding="utf-8"), receipt), encoding="utf-8")


def _as_json(rows: list[dict[str, Any]]) -> str:
    repeat = "python benchmarks/sanitizer_suite.py"
    return json.dumps({"date": time.strftime("%Y-%m-%d"), "repeat": repeat, "rows": rows}, indent=1) + "\n"


def main() -> None:
    """Look at them, a few at once: a tool spends most of its time starting."""
    if sys.argv[1:] == ["--page"]:
        return write_page()
    names = sys.argv[1:] or NAMES
    files = [file for file in all_files() if file.path.stem in names]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        rows = list(threads.map(looked_at, files))
    if folder := os.environ.get("WORKBENCH_RECEIPTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / RECEIPT.name).write_text(_as_json(rows))
    elif not sys.argv[1:]:  # the repository's own is of all files
        RECEIPT.write_text(_as_json(rows))
        write_page()
    if bad := [row["file"] for row in rows if not row["right"]]:
        raise SystemExit(f"not as wanted: {', '.join(bad)}")
    return None


if __name__ == "__main__":
    main()
