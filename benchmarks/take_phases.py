"""Takes the other phases' receipts out of what benchmarks/on_the_gpu.py packed; writes the pages they fill.

A phase's receipt is taken from its last try that came to its end: where it failed, only if failing is a
finding of its own (a cheat that passed). What stands apart by card has the card in its file's name. The
grid's receipts are ``take_receipts.py``'s. Usage, from the root:
``python benchmarks/take_phases.py on_the_gpu.tgz [--into FOLDER]``; prints what became of every phase.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from card_names import slug

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"
Json = dict[str, Any]

TAKEN = {
    "figures/figures.json": "{date}-{card}-figures.json",
    "first-branch/first_branch.json": "{date}-{card}-first-branch.json",
    "followed/baselines_followed.json": "{date}-{card}-baselines-followed.json",
    "walks/walks.json": "walks.json",
    "lines-left-behind/lines-left-behind.json": "lines-left-behind.json",
    "joins/joins.json": "joins.json",
    "bare-moves/bare-moves.json": "bare-moves-{card}.json",
    "off-grid/off_grid.json": "{date}-{card}-off-grid.json",
    "search-cost/search-cost.json": "search-cost-{card}.json",
    "second-run/second-run.json": "{date}-{card}-second-run.json",
    "kernelbench/kernelbench.json": "kernelbench-gpu.json",
    "cheats/cheats-cuda.json": "cheats-cuda.json",
    "foreign/*foreign-suite-cuda.json": "foreign-suite-cuda.json",
    "published/*published-cuda.json": "published-cuda.json",
    "published-times/*published-cuda-timed.json": "published-cuda-timed.json",
    "sanitizer/sanitizer-cuda.json": "sanitizer-cuda.json",
}
"""What a phase writes, and its name in ``benchmarks/receipts``; a date only where runs stand apart."""
FINDINGS = {"cheats", "foreign", "published", "published-times", "sanitizer", "kernelbench"}
"""Phases whose failure is a verdict."""
PAGES = (("cheat_suite.py", "--page"), ("foreign_suite.py", "--page"), ("published_kernels.py", "page"),
         ("sanitizer_suite.py", "--page"), ("table.py",))  # fmt: skip


def members(archive: Path) -> dict[str, tuple[bytes, float]]:
    """JSON files of an archive by ``PHASE/NAME``, the phase's last try; when each was written."""
    found: dict[str, tuple[bytes, float]] = {}
    with tarfile.open(archive) as packed:
        for member in sorted(packed.getmembers(), key=lambda one: one.mtime):
            file = packed.extractfile(member) if member.name.endswith(".json") else None
            if file is not None:
                found[_without_try(member.name.partition("/")[2])] = (file.read(), member.mtime)
    return found


def _without_try(name: str) -> str:
    """``grid-2/parts/x`` as ``grid/parts/x``."""
    phase, slash, rest = name.partition("/")
    head, dash, number = phase.rpartition("-")
    return f"{head if dash and number.isdecimal() else phase}{slash}{rest}"


def take(archive: Path, into: Path) -> list[str]:
    """Write what is to be taken into a folder; the names."""
    files = members(archive)
    states = {row["phase"]: row["state"] for row in json.loads(files["session.json"][0])}
    cards = {card for content, _ in files.values() if (card := card_of(content))}
    only = cards.pop() if len(cards) == 1 else ""
    taken = []
    for pattern, name in TAKEN.items():
        phase = pattern.partition("/")[0]
        wanted = {"ok", "failed"} if phase in FINDINGS else {"ok"}
        for path in fnmatch.filter(files, pattern) if states.get(phase) in wanted else ():
            content, written = files[path]
            card = card_of(content) or only
            day = time.strftime("%Y-%m-%d", time.gmtime(written))
            own = _of_the_same(into, name, card) or name.format(date=day, card=slug(card))
            into.mkdir(parents=True, exist_ok=True)
            (into / own).write_bytes(content)
            taken.append(own)
    return taken


def card_of(content: bytes) -> str:
    """The card that a receipt names, of a run or of a measured result; empty where it names none."""
    value: Any = None
    with contextlib.suppress(ValueError):  # a phase that was cut off may have left half a file
        value = json.loads(content)
    if not isinstance(value, dict):
        return ""
    machine = value.get("machine")
    return str(value.get("gpu") or (machine.get("card", "") if isinstance(machine, dict) else ""))


def _of_the_same(into: Path, name: str, card: str) -> str:
    """The file that is there already for a card of that name, where one is kept a card and no date in it."""
    if "{card}" not in name or "{date}" in name:
        return ""
    files = sorted(into.glob(name.replace("-{card}", "*")))
    return next((file.name for file in files if card_of(file.read_bytes()) == card), "")


def told(archive: Path) -> list[str]:
    """A line for every try of a phase."""
    rows: list[Json] = json.loads(members(archive)["session.json"][0])
    return [f"{row['phase']:<16}{row['state']:<15}{row['seconds']:7.1f} s  {row['note']}" for row in rows]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("archives", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, default=BENCHMARKS / "receipts")
    given = parser.parse_args()
    for archive in given.archives:
        print("\n".join([*told(archive), *(f"taken {name}" for name in take(archive, given.into))]))
    if given.into == BENCHMARKS / "receipts":
        for script, *words in PAGES:
            subprocess.run([sys.executable, str(BENCHMARKS / script), *words], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
