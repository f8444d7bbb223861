"""Judges every seed of every sample op on the emulator and counts hazards: there must be none.

Usage, from the repository's root: ``python benchmarks/false_alarms.py``. Writes ``false-alarms.json`` to
``benchmarks/receipts``, or into the folder ``$WORKBENCH_RECEIPTS`` names.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "referee")]

from cheat_files import caught_by, verdict_of  # noqa: E402

from workbench.errors import WorkbenchError  # noqa: E402
from workbench.model import H100  # noqa: E402
from workbench.playbook.generate import generate  # noqa: E402
from workbench.playbook.rules.moves import seed_vectors  # noqa: E402
from workbench.problem.capture import read_file  # noqa: E402
from workbench.problem.intake import open_problem  # noqa: E402
from workbench.referee.judge import judge  # noqa: E402
from workbench.referee.options import JudgeOptions  # noqa: E402

SEEDS = 5
OPTIONS = JudgeOptions(cpu_s=600)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """A verdict for each seed of one sample op."""
    problem = open_problem(read_file(path))
    rows = []
    for card in seed_vectors(problem, H100, count=SEEDS):
        draft = generate(problem, card.vector)
        try:
            evaluation = judge(problem, draft.kernel, H100, OPTIONS, lambda stage: None)
            got, by = verdict_of(evaluation), caught_by(evaluation)
        except WorkbenchError as error:
            got, by = "machine failed", str(error)
        rows.append({"op": path.stem, "seed": card.title, "vector": dict(card.vector), "got": got, "by": by})
        print(f"{path.stem:24} {got:18} {card.title[:60]} {by[:100]}", flush=True)
    return rows


def main() -> int:
    """Run, print, write the receipt."""
    started = time.perf_counter()
    with ThreadPoolExecutor(2) as threads:
        found = threads.map(rows_of, sorted((ROOT / "sample_ops").glob("*.py")))
        rows = [row for part in found for row in part]
    hazards = [row for row in rows if row["got"].startswith("hazard")]
    receipt = {
        "date": time.strftime("%Y-%m-%d"),
        "kernels": len(rows),
        "verdicts": dict(Counter(row["got"] for row in rows).most_common()),
        "hazards": len(hazards),
        "seconds": round(time.perf_counter() - started),
        "rows": rows,
    }
    folder = Path(os.environ.get("WORKBENCH_RECEIPTS", ROOT / "benchmarks" / "receipts"))
    (folder / "false-alarms.json").write_text(json.dumps(receipt, indent=1) + "\n")
    print(f"{len(rows)} kernels, {len(hazards)} hazards, {receipt['verdicts']}")
    return 1 if hazards else 0


if __name__ == "__main__":
    sys.exit(main())
