"""Judges the foreign lane's suite, cheats and honest solutions, and writes the table of docs/foreign-lane.md.

Usage, from the repository's root:

    python benchmarks/foreign_suite.py                  on CPU tensors (needs g++; takes a minute or two)
    python benchmarks/foreign_suite.py --device cuda    on a GPU (needs nvcc for what is built there)
    python benchmarks/foreign_suite.py --page           the page alone, from the committed receipts

On the CPU it also builds one C++ extension on the quickest and on the slowest rung of the ``load_inline``
ladder. Receipts go to ``benchmarks/receipts``, or into the folder ``$WORKBENCH_RECEIPTS`` names, where the
page is then left alone. A test fails when the page and the receipts disagree.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "foreign"))

RECEIPTS = ROOT / "benchmarks" / "receipts"
NAMES = {"cpu": "foreign-suite-cpu.json", "cuda": "foreign-suite-cuda.json"}
RECEIPT = RECEIPTS / NAMES["cpu"]
PAGE = ROOT / "docs" / "foreign-lane.md"
BEGIN, END = "<!-- written by benchmarks/foreign_suite.py -->", "<!-- end -->"
LADDER_HEAD = """
#### The ladder, one C++ extension
One build each, on a machine of two cores that had other work to do: an order of magnitude, no more.

| rung | seconds to build and load | verdict |
|---|---:|---|
"""
Json = dict[str, Any]


def main() -> None:
    """Judge everything; exit code 1 when a cheat passed or an honest solution did not."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", default="", help="judge the files whose name holds this; writes nothing")
    parser.add_argument("--page", action="store_true", help="write the page from the committed receipts")
    asked = parser.parse_args()
    if asked.page:
        write_page()
        return
    receipt = measured(asked.device, asked.only)
    print(tables(receipt))
    folder = os.environ.get("WORKBENCH_RECEIPTS")
    if not asked.only:
        place = Path(folder) if folder else RECEIPTS
        place.mkdir(parents=True, exist_ok=True)
        (place / NAMES[asked.device]).write_text(json.dumps(receipt, indent=1) + "\n", encoding="utf-8")
    if not asked.only and not folder:
        write_page()
    raise SystemExit(1 if wrong(receipt["rows"]) else 0)


def write_page() -> None:
    """Fill in the page's generated part."""
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), committed()), encoding="utf-8")


def committed() -> list[Json]:
    """The repository's receipts, the CPU's first."""
    paths = [RECEIPTS / name for name in NAMES.values()]
    return [json.loads(path.read_text()) for path in paths if path.is_file()]


def measured(device: str, only: str = "") -> Json:
    """Every verdict, what the sandbox held, and the ladder."""
    import suite

    from workbench.foreign.judge import judge_solution
    from workbench.foreign.values import ForeignOptions

    started = time.perf_counter()
    folders = ("cheats", "honest") if device == "cpu" else ("cheats", "honest", "on_gpu")
    wanted = [entry for entry in suite.entries(folders) if device == "cpu" or not entry.cpu_only]
    wanted = [entry for entry in wanted if only in entry.name]
    opened = suite.problems(wanted)
    found = list(_told(suite.judged(wanted, opened, "cuda" if device == "cuda" else "cpu"), started))
    extension = (suite.HERE / "honest" / "load_inline_cpp.py").read_text()
    # An option the thin rung does not know sends the same text to the last one.
    unmodified = extension.replace("functions=[", "keep_intermediates=True, functions=[")
    ladder = []
    for text in (extension, unmodified) if device == "cpu" and not only else ():
        report = judge_solution(opened["row_softmax"], text, ForeignOptions(calls=10)).report
        ladder.append(
            {"rung": report.build, "seconds": dict(report.seconds)["load"], "verdict": report.outcome.kind}
        )
    last = found[-1].evaluation.report
    return {
        "device": device,
        "rows": [_row(one) for one in found],
        "ladder": ladder,
        "sandbox": {fence.name: fence.holds for fence in last.fences},
        "machine": {"system": platform.platform(), "python": platform.python_version()},
        "versions": dict(last.versions),
        "seconds": round(time.perf_counter() - started, 1),
        "repeat": f"python benchmarks/foreign_suite.py --device {device}",
    }


def _told(found: Iterator[Any], started: float) -> Iterator[Any]:
    """Say each verdict as it comes."""
    for one in found:
        mark = "ok " if one.as_it_must else "BAD"
        said = _row(one)
        spent = f"{time.perf_counter() - started:6.1f} s"
        told = (said["reason"] or said["work"])[:150]
        print(f"{spent} {mark} {said['name']:32}{said['verdict']:14}{told}", flush=True)
        for line in said["times"]:
            print(f"           {line}", flush=True)
        yield one


def _row(found: Any) -> Json:
    from workbench.views.foreign_judgement import time_line
    from workbench.views.numbers import verdict_message

    entry, report = found.entry, found.evaluation.report
    return {
        "name": entry.name,
        "number": entry.number,
        "what": " ".join(entry.what.split()),
        "must": list(entry.verdicts),
        "verdict": report.outcome.kind,
        "reason": verdict_message(report.outcome),
        "work": report.provenance.sentence if report.provenance else "",
        "calls": report.calls,
        "build": report.build,
        "seconds": dict(report.seconds),
        "notes": list(report.notes),
        "times": [time_line(one) for one in report.times],
        "timed": [one.model_dump(mode="json") for one in report.times],
        "replay": report.replay,
    }


def wrong(rows: list[Json]) -> list[str]:
    """Names of cheats that passed, of honest solutions that did not, and of unexpected verdicts."""
    return [row["name"] for row in rows if row["verdict"] not in row["must"]]


# ------------------------------------------------------------------------------------ the page


def with_tables(page: str, receipts: list[Json]) -> str:
    """The page with its generated part replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{''.join(map(tables, receipts))}{END}{after}"


def tables(receipt: Json) -> str:
    """Counts, the cheats, the honest ones, the ladder, the sandbox, as Markdown."""
    rows = receipt["rows"]
    cheats = [row for row in rows if "passed" not in row["must"]]
    honest = [row for row in rows if "passed" in row["must"]]
    passed = sum(row["verdict"] == "passed" for row in cheats)
    rejected = sum(row["verdict"] != "passed" for row in honest)
    timed = [row for row in rows if row.get("times") and row["verdict"] == "passed"]
    parts = [
        f"\n### On {receipt['device']} tensors\n"
        f"**{passed} of {len(cheats)} cheats passed; {rejected} of {len(honest)} honest ones were rejected** "
        f"(torch {receipt['versions']['torch']}).\n",
        "\n#### Cheats\n| no. | what it tries | verdict | why |\n|---|---|---|---|\n",
        *(
            _line(row["number"], _named(row), row["verdict"], row["reason"])
            for row in sorted(cheats, key=_order)
        ),
        "\n#### Honest solutions\n| what it does | verdict | who does the work |\n|---|---|---|\n",
        *(_line(_named(row), row["verdict"], row["work"]) for row in honest),
        *(["\n#### Times\n| what it does | time |\n|---|---|\n"] if timed else []),
        *(_line(_named(row), "; ".join(row["times"])) for row in timed),
        "\n#### The sandbox on the machine that wrote this\n| fence | holds |\n|---|---|\n",
        *(_line(name, holds) for name, holds in receipt["sandbox"].items()),
    ]
    if receipt["ladder"]:
        parts.append(LADDER_HEAD)
        parts += [
            _line(rung["rung"], f"{rung['seconds']:.1f}", rung["verdict"]) for rung in receipt["ladder"]
        ]
    return "".join(parts)


def _named(row: Json) -> str:
    return f"{row['what']} (`{row['name'].partition('/')[2]}`)"


def _order(row: Json) -> tuple[bool, int, str]:
    number = row["number"]
    return not number.isdigit(), int(number) if number.isdigit() else 0, row["name"]


def _line(*cells: object) -> str:
    texts = [str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells]
    return f"| {' | '.join(text[:240] for text in texts)} |\n"


if __name__ == "__main__":
    main()
