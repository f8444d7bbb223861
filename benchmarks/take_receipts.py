"""Takes the receipts that docs/benchmarks.md needs out of what benchmarks/on_the_gpu.py packed.

An archive replaces what it measured and nothing else: for each problem, shape and card the best kernel of the
newest archive that gave it a time that is believed. So a run of few ops leaves the other rows as they were.
Which shapes of which receipts are shown stands in ``rows.json``; problems without a correct kernel in
``failures.json``. A receipt that no row needs goes, unless documentation or a test names it. Then writes the
page. Usage: ``python benchmarks/take_receipts.py on_the_gpu.tgz``; several are taken in the order given.
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import table
from measured_rows import FAILURES, MEASURED, ROWS, best_measured, read_measured

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent


def contents(archive: Path) -> tuple[dict[str, Json], list[Json]]:
    """Receipts by file name, and the rows of every kernel that was judged."""
    receipts, rows = {}, []
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            file = packed.extractfile(member) if member.name.endswith(".json") else None
            if file is None:
                continue
            value = json.loads(file.read())
            if not isinstance(value, dict):
                continue  # what became of each phase
            if value.get("format", "").startswith("workbench-receipt/"):
                receipts[Path(member.name).name] = value
            elif value.get("part") == "judged":
                rows += value.get("rows", [])
    return receipts, rows


def failures(rows: list[Json]) -> list[Json]:
    """Problems none of whose kernels gave a time that is believed, by the card they were judged on."""
    last = {_tried(row): row for row in rows}
    believed = {_tried(row) for row in rows if row["kind"] == "passed" and not _doubted(row)}
    return [
        {"problem": op, "shape": "all", "why": row["kind"], "card": card}
        for (op, card), row in last.items()
        if (op, card) not in believed
    ]


def _tried(row: Json) -> tuple[str, str]:
    """The op of a judged row and its card, empty where neither the row nor its evaluation names one."""
    return row["op"], row.get("card") or row.get("evaluation", {}).get("target", "")


def _doubted(row: Json) -> bool:
    """True when no time of the row is free of suspicion."""
    times = row.get("evaluation", {}).get("times", ())
    return not any(time["measured"] and not time["measured"]["suspicion"] for time in times)


def take(archive: Path, folder: Path) -> list[str]:
    """Merge an archive into ``folder``; returns the names of the receipts that it added."""
    receipts, judged = contents(archive)
    kept, failed = read_measured(folder)
    rows = {_key(row): row for row in best_measured(kept)}
    fresh = {
        key: row
        for key, row in ((_key(row), row) for row in best_measured(receipts))
        if key not in rows or row["made"] >= rows[key]["made"]
    }
    rows |= fresh
    taken = sorted({row["file"] for row in fresh.values()})
    folder.mkdir(parents=True, exist_ok=True)
    for name in taken:
        (folder / name).write_text(json.dumps(receipts[name], separators=(",", ":")) + "\n")
    needed = {row["file"] for row in rows.values()}
    for old in folder.glob("*.json"):
        if old.name not in {*needed, ROWS, FAILURES} and not named(old.name):
            old.unlink()
    _write_list(folder / ROWS, [_told(rows[key]) for key in sorted(rows)])
    tried = set(map(_tried, judged))
    failed = [one for one in failed if (one["problem"], one.get("card", "")) not in tried] + failures(judged)
    _write_list(folder / FAILURES, failed)
    return taken


def _key(row: Json) -> tuple[str, str, str]:
    return row["problem"], row["shape"], row["card"]


def _told(row: Json) -> Json:
    return {name: row[name] for name in ("file", "problem", "shape", "card")}


def _write_list(path: Path, rows: list[Json]) -> None:
    path.write_text(json.dumps(rows, indent=1) + "\n")


def named(receipt: str) -> bool:
    """True for a receipt that documentation, a test or a program names; the generated page does not count."""
    return any(receipt in path.read_text(errors="replace") for path in _texts())


def _texts() -> list[Path]:
    places = (("docs", "*.md"), ("tests", "*.py"), ("benchmarks", "*.py"), ("notebooks", "*.ipynb"))
    found = [path for folder, kind in places for path in (ROOT / folder).glob(f"**/{kind}")]
    away = ROOT / "tests" / "browser" / "node_modules"
    return [p for p in (*found, ROOT / "README.md") if p != table.PAGE and away not in p.parents]


if __name__ == "__main__":
    for archive in sys.argv[1:]:
        for taken in take(Path(archive), MEASURED):
            print(taken)
    table.main()
