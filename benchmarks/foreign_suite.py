"""Judges the foreign lane's suite, cheats and honest solutions, and writes the table of docs/foreign-lane.md.

Usage: ``python benchmarks/foreign_suite.py`` (needs g++; takes a minute or two). It also builds one C++
extension on the quickest and on the slowest rung of the ``load_inline`` ladder. The receipt goes to
``benchmarks/receipts``; a test fails when the page and the receipt disagree. With ``--device cuda`` it
judges on a GPU, prints, and leaves the page alone.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "foreign"))

RECEIPT = ROOT / "benchmarks" / "receipts" / "2026-11-21-foreign-suite.json"
PAGE = ROOT / "docs" / "foreign-lane.md"
BEGIN, END = "<!-- written by benchmarks/foreign_suite.py -->", "<!-- end -->"
LADDER_HEAD = """
### The ladder, one C++ extension
One build each, on a machine of two cores that had other work to do: an order of magnitude, no more.

| rung | seconds to build and load | verdict |
|---|---:|---|
"""
Json = dict[str, Any]


def main() -> None:
    """Judge everything; exit code 1 when a cheat passed or an honest solution did not."""
    device = "cuda" if "cuda" in sys.argv[1:] else "cpu"
    receipt = measured(device)
    print(tables(receipt))
    if device == "cpu":
        RECEIPT.write_text(json.dumps(receipt, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), receipt), encoding="utf-8")
    raise SystemExit(1 if wrong(receipt["rows"]) else 0)


def measured(device: str) -> Json:
    """Every verdict, what the sandbox held, and the ladder."""
    import suite

    from workbench.foreign.judge import judge_solution
    from workbench.foreign.values import ForeignOptions

    folders = ("cheats", "honest") if device == "cpu" else ("cheats", "honest", "on_gpu")
    wanted = [entry for entry in suite.entries(folders) if device == "cpu" or not entry.cpu_only]
    opened = suite.problems(wanted)
    found = list(suite.judged(wanted, opened, "cuda" if device == "cuda" else "cpu"))
    extension = (suite.HERE / "honest" / "load_inline_cpp.py").read_text()
    # An option the thin rung does not know sends the same text to the last one.
    unmodified = extension.replace("functions=[", "keep_intermediates=True, functions=[")
    ladder = []
    for text in (extension, unmodified) if device == "cpu" else ():
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
    }


def _row(found: Any) -> Json:
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
        "replay": report.replay,
    }


def wrong(rows: list[Json]) -> list[str]:
    """Names of cheats that passed, of honest solutions that did not, and of unexpected verdicts."""
    return [row["name"] for row in rows if row["verdict"] not in row["must"]]


# ------------------------------------------------------------------------------------ the page


def with_tables(page: str, receipt: Json) -> str:
    """The page with its generated part replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables(receipt)}{END}{after}"


def tables(receipt: Json) -> str:
    """Counts, the cheats, the honest ones, the ladder, the sandbox, as Markdown."""
    rows = receipt["rows"]
    cheats = [row for row in rows if not row["name"].startswith("honest/")]
    honest = [row for row in rows if row["name"].startswith("honest/")]
    passed = sum(row["verdict"] == "passed" for row in cheats)
    rejected = sum(row["verdict"] != "passed" for row in honest)
    parts = [
        f"**{passed} of {len(cheats)} cheats passed; {rejected} of {len(honest)} honest ones were rejected** "
        f"(on {receipt['device']} tensors, torch {receipt['versions']['torch']}).\n",
        "\n### Cheats\n| no. | what it tries | verdict | why |\n|---|---|---|---|\n",
        *(
            _line(row["number"], _named(row), row["verdict"], row["reason"])
            for row in sorted(cheats, key=_order)
        ),
        "\n### Honest solutions\n| what it does | verdict | who does the work |\n|---|---|---|\n",
        *(_line(_named(row), row["verdict"], row["work"]) for row in honest),
        "\n### The sandbox on the machine that wrote this\n| fence | holds |\n|---|---|\n",
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
    return f"| {' | '.join(text[:160] for text in texts)} |\n"


if __name__ == "__main__":
    main()
