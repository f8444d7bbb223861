"""Takes the receipts that docs/benchmarks.md needs out of what benchmarks/on_the_gpu.py packed.

Keeps, for every problem and shape, the receipt of the best kernel, and notes the shapes for which no kernel
passed in ``failures.json``. Then writes the page.
Usage: ``python benchmarks/take_receipts.py on_the_gpu.tgz``
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import table

Json = dict[str, Any]


def contents(archive: Path) -> tuple[dict[str, Json], list[Json]]:
    """Receipts by file name, and the rows of every kernel that was judged."""
    receipts, rows = {}, []
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            file = packed.extractfile(member) if member.name.endswith(".json") else None
            if file is None:
                continue
            value = json.loads(file.read())
            if value.get("format", "").startswith("workbench-receipt/"):
                receipts[Path(member.name).name] = value
            elif value.get("part") == "judged":
                rows += value.get("rows", [])
    return receipts, rows


def failures(rows: list[Json]) -> list[Json]:
    """Problems none of whose kernels gave a time that is believed."""
    last = {row["op"]: row for row in rows}
    believed = {row["op"] for row in rows if row["kind"] == "passed" and not _doubted(row)}
    return [
        {"problem": op, "shape": "all", "why": row["kind"]} for op, row in last.items() if op not in believed
    ]


def _doubted(row: Json) -> bool:
    """True when no time of the row is free of suspicion."""
    times = row.get("evaluation", {}).get("times", ())
    return not any(time["measured"] and not time["measured"]["suspicion"] for time in times)


def take(archive: Path, folder: Path) -> list[str]:
    """Write what the page needs into ``folder``; returns the receipts' names."""
    receipts, rows = contents(archive)
    wanted = sorted({row["file"] for row in table.best_measured(receipts)})
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    for name in wanted:
        (folder / name).write_text(json.dumps(receipts[name], separators=(",", ":")) + "\n")
    (folder / "failures.json").write_text(json.dumps(failures(rows), indent=1) + "\n")
    return wanted


if __name__ == "__main__":
    for taken in take(Path(sys.argv[1]), table.MEASURED):
        print(taken)
    table.main()
