"""The measured part of docs/benchmarks.md: a section a card, then every row where it was measured last. Text.

A row is a problem and a shape on a card. Owns what is read of ``receipts/measured`` and how rows add up;
``row_bytes.py`` says what of a row is moved.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from row_bytes import LARGE_BYTES, REACH, bare_moves, bare_share, reckoned  # noqa: E402

MEASURED = HERE / "receipts" / "measured"
ROWS = "rows.json"
"""Which shapes of which receipts are shown: ``file``, ``problem``, ``shape``, ``card``; all, without it."""
FAILURES = "failures.json"
EAGER = "eager"
BELOW = 0.97
"""Rows under this factor are counted by themselves."""
Json = dict[str, Any]

HEAD = """## Measured by the referee
{cards}: a section each.

One row a problem and declared shape: the kernel with the best lower bound against the **fastest** baseline,
in one precision contract. Device time, caches cold, in microseconds with its 95% interval. Each baseline took
turns with the kernel on the same tensors (ABBA); the factor's interval is a paired bootstrap. A dash is a
baseline that was not measured. Every row has a receipt with its raw samples:
`workbench replay-receipt benchmarks/receipts/measured/FILE` checks it anywhere, and repeats it on a GPU.
*Roofline*: the least bytes at the bandwidth of a copy of 2 GB, or the operations at peak, and a first launch.
*Bare*: what moving the row's bytes takes alone on the same kind of card, by the same clock in the same cold
state, over the kernel's time (`benchmarks/bare_moves.py`; rows that move 16 MiB or more).
"""
SECTION = """
### {card}
{versions}.

| problem | shape | kernel us | {baselines} | factor | 95% | verdict | roofline | bare | clock | receipt |
|---|---|---:|{dashes}---:|---|---|---:|---:|---|---|
"""
FOOT = """
Rows: {rows}. Against the fastest baseline: geometric mean {geomean:.2f} (lower bounds {geomean_low:.2f}),
median {median:.2f}, {wins} of {rows} FASTER, {losses} SLOWER. Against eager alone: geometric mean {eager}.
Below 0.97: {below} rows.{large}
One problem alone may carry a mean: without {carrier} the geometric mean is {without:.2f}.
Shapes without a correct kernel: {failed}; counted as 1x, the geometric mean is {clamped:.2f}.
"""
SHORT_HEAD = """
#### Launch-bound rows of the {card}
Kernels under 30 us: host time to issue one call, and device time when replayed from a CUDA graph, both sides.

| problem | shape | kernel host us | kernel graph us | {baselines} |
|---|---|---:|---:|{dashes}
"""
NEWEST_HEAD = """
### By row, wherever it was measured last
A factor compares two times of one card, never times of two. Factors of two cards are not one card's: another
memory moves kernel and baseline by unlike amounts, and later rows are of later kernels. So the last line,
every problem and shape once with its newest receipt, is the latest state and no card's mean. *Near*: of the
rows that move 64 MB or more those that reach {reach:.0%} of a bare move of their card.

| rows of | rows | geometric mean | lower bounds | median | below 0.97 | near |
|---|---:|---:|---:|---:|---:|---:|
"""
SHARED_HEAD = """
Shapes that more than one card has, kernel time in microseconds and factor; all others stand in the section of
their one card.

| problem | shape | last on | {cards} |
|---|---|---|{dashes}
"""


def read_measured(folder: Path) -> tuple[dict[str, Json], list[Json]]:
    """Receipts by file name, and the shapes that failed: ``problem``, ``shape``, ``why``, ``card``."""
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    found = {file.name: json.loads(file.read_text()) for file in files}
    failures, rows = found.pop(FAILURES, []), found.pop(ROWS, None)
    return found if rows is None else shown(found, rows), failures


def shown(receipts: dict[str, Json], rows: Sequence[Json]) -> dict[str, Json]:
    """The receipts with those of their shapes that ``rows`` lists: others have been measured again since."""
    wanted = {(row["file"], row["shape"]) for row in rows}
    found = {
        name: receipt | {"cases": [case for case in receipt["cases"] if (name, case["case"]) in wanted]}
        for name, receipt in receipts.items()
    }
    return {name: receipt for name, receipt in found.items() if receipt["cases"]}


def best_measured(receipts: dict[str, Json]) -> list[Json]:
    """The best kernel of every problem, shape and card, by its factor's lower bound; without suspects."""
    best: dict[tuple[str, str, str], Json] = {}
    for file, receipt in receipts.items():
        for case in receipt["cases"]:
            row = _row(file, receipt, case)
            key = (row["problem"], row["shape"], row["card"])
            if row["fastest"] is None or case["measured"]["suspicion"]:
                continue
            if key not in best or row["fastest"]["low"] > best[key]["fastest"]["low"]:
                best[key] = row
    return sorted(best.values(), key=lambda row: row["problem"])


def newest(rows: Iterable[Json]) -> list[Json]:
    """Every problem and shape once, from the card that measured it last."""
    found: dict[tuple[str, str], Json] = {}
    for row in rows:
        key = (row["problem"], row["shape"])
        if key not in found or row["made"] > found[key]["made"]:
            found[key] = row
    return list(found.values())


def _row(file: str, receipt: Json, case: Json) -> Json:
    rivals = case["measured"]["rivals"]
    versions = dict(receipt["machine"]["versions"])
    return {
        "file": file,
        "problem": receipt["problem"]["name"],
        "shape": case["case"],
        "card": receipt["machine"]["card"],
        "torch": versions.get("torch", "unknown"),
        "made": receipt.get("made", ""),
        "time_us": case["time_us"],
        **reckoned(receipt, case),
        "measured": case["measured"],
        "rivals": rivals,
        "fastest": min(rivals, key=lambda rival: rival["time_us"], default=None),
    }


# ------------------------------------------------------------------------------------ text


def measured_section(receipts: dict[str, Json], failures: Sequence[Json]) -> str:
    """Rows of the referee's clock by card, what they add up to, and the newest of each."""
    rows = best_measured(receipts)
    bare = {card: bare_moves(card) for card in sorted({row["card"] for row in rows})}
    rows = [row | {"bare": bare_share(row, bare[row["card"]])} for row in rows]
    cards = {card: [row for row in rows if row["card"] == card] for card in bare}
    parts = [HEAD.format(cards="; ".join(cards))]
    for card, own in cards.items():
        parts.append(
            _card_section(card, own, [one for one in failures if one.get("card") in (card, "", None)])
        )
    return "".join(parts) + (_newest_section(cards) if len(cards) > 1 else "") + "\n"


def _card_section(card: str, rows: Sequence[Json], failures: Sequence[Json]) -> str:
    names = list(dict.fromkeys(rival["name"] for row in rows for rival in row["rivals"]))
    head = SECTION.format(
        card=card,
        versions="torch " + ", ".join(sorted({row["torch"] for row in rows})),
        baselines=" | ".join(names),
        dashes="---:|" * len(names),
    )
    lines = "\n".join(_line(row, names) for row in rows)
    return head + lines + "\n" + _foot(rows, failures) + _short_section(card, rows, names)


def _line(row: Json, names: Sequence[str]) -> str:
    measured, fastest = row["measured"], row["fastest"]
    times = {rival["name"]: f"{rival['time_us']:.1f}" for rival in row["rivals"]}
    cells = [
        row["problem"],
        _shape(row),
        f"{row['time_us']:.1f} ({measured['low_us']:.1f} to {measured['high_us']:.1f})",
        *(times.get(name, "–") for name in names),
        f"{fastest['ratio']:.2f}",
        f"{fastest['low']:.2f} to {fastest['high']:.2f}",
        f"{fastest['verdict']} than {fastest['name']}" if _decided(fastest) else fastest["verdict"],
        f"{row['floor_us'] / row['time_us']:.0%}" if row["floor_us"] else "–",
        "–" if row["bare"] is None else f"{row['bare']:.0%}",
        measured["clock"],
        f"`{row['file'][:12]}`",
    ]
    return "| " + " | ".join(cells) + " |"


def _shape(row: Json) -> str:
    return str(row["shape"].replace("|", " "))


def _decided(rival: Json) -> bool:
    return rival["verdict"] in ("FASTER", "SLOWER")


def _foot(rows: Sequence[Json], failures: Sequence[Json]) -> str:
    factors = [row["fastest"]["ratio"] for row in rows]
    eager = [rival["ratio"] for row in rows for rival in row["rivals"] if rival["name"] == EAGER]
    carrier, without = _without_the_best(rows)
    large, near = _large_rows(rows)
    told = f" Of {large} rows that move 64 MB or more, {near} reach {REACH:.0%} of a bare move."
    return FOOT.format(
        **_summed(rows),
        carrier=carrier,
        without=without,
        large=told if large else "",
        wins=sum(row["fastest"]["verdict"] == "FASTER" for row in rows),
        losses=sum(row["fastest"]["verdict"] == "SLOWER" for row in rows),
        eager=f"{geomean(eager):.2f}" if eager else "not measured",
        failed=len(failures),
        clamped=geomean([*factors, *[1.0] * len(failures)]),
    )


def _summed(rows: Sequence[Json]) -> Json:
    """What rows add up to, whatever their card."""
    factors = [row["fastest"]["ratio"] for row in rows]
    return {
        "rows": len(rows),
        "geomean": geomean(factors),
        "geomean_low": geomean(row["fastest"]["low"] for row in rows),
        "median": statistics.median(factors),
        "below": sum(factor < BELOW for factor in factors),
    }


def _large_rows(rows: Sequence[Json]) -> tuple[int, int]:
    """Those that move much and have a bare move of their card, and how many of them come near it."""
    shares = [
        row["bare"] for row in rows if row["read"] + row["written"] >= LARGE_BYTES and row["bare"] is not None
    ]
    return len(shares), sum(share >= REACH for share in shares)


def _without_the_best(rows: Sequence[Json]) -> tuple[str, float]:
    """The problem that gains most, and the mean of all others."""
    factors: dict[str, list[float]] = {}
    for row in rows:
        factors.setdefault(row["problem"], []).append(row["fastest"]["ratio"])
    best = max(factors, key=lambda problem: geomean(factors[problem]))
    others = [factor for problem, found in factors.items() if problem != best for factor in found]
    return best, geomean(others)


def _short_section(card: str, rows: Sequence[Json], names: Sequence[str]) -> str:
    short = [row for row in rows if row["measured"]["host_us"] is not None]
    if not short:
        return ""
    told = [f"{name} host / graph us" for name in names]
    head = SHORT_HEAD.format(card=card, baselines=" | ".join(told), dashes="---:|" * len(names))
    lines = []
    for row in short:
        by_name = {
            rival["name"]: f"{_us(rival['host_us'])} / {_us(rival['graph_us'])}" for rival in row["rivals"]
        }
        own = (_us(row["measured"]["host_us"]), _us(row["measured"]["graph_us"]))
        lines.append("| " + " | ".join([row["problem"], _shape(row), *own, *_of(by_name, names)]) + " |")
    return head + "\n".join(lines) + "\n"


def _of(cells: dict[str, str], names: Iterable[str]) -> list[str]:
    """The cell of every name; a dash where there is none."""
    return [cells.get(name, "–") for name in names]


def _us(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def geomean(factors: Iterable[float]) -> float:
    """1 for none."""
    logs = [math.log(factor) for factor in factors]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0


# ------------------------------------------------------------------------------------ several cards


def _newest_section(cards: dict[str, list[Json]]) -> str:
    """Every card's sum beside that of the newest rows, and the shapes that several cards have."""
    last = newest(row for rows in cards.values() for row in rows)
    lines = []
    for told, rows in (*cards.items(), ("the newest of each, whatever its card", last)):
        large, near = _large_rows(rows)
        sums = "{rows} | {geomean:.2f} | {geomean_low:.2f} | {median:.2f} | {below}".format(**_summed(rows))
        lines.append(f"| {told} | {sums} | {near} of {large} |\n")
    counts = [f"{sum(row['card'] == card for row in last)} come from the {card}" for card in cards]
    told = f"\nOf the newest rows {', '.join(counts)}.\n"
    return NEWEST_HEAD.format(reach=REACH) + "".join(lines) + told + _shared_rows(cards, last)


def _shared_rows(cards: dict[str, list[Json]], last: Sequence[Json]) -> str:
    """A line for every shape of more than one card; empty without any."""
    by_shape: dict[tuple[str, str], dict[str, str]] = {}
    for card, rows in cards.items():
        for row in rows:
            cell = f"{row['time_us']:.1f}, {row['fastest']['ratio']:.2f}"
            by_shape.setdefault((row["problem"], row["shape"]), {})[card] = cell
    lines = []
    for row in last:
        cells = by_shape[row["problem"], row["shape"]]
        if len(cells) > 1:
            on = f"{row['card']}, {row['made'][:10]}"
            lines.append("| " + " | ".join([row["problem"], _shape(row), on, *_of(cells, cards)]) + " |\n")
    head = SHARED_HEAD.format(cards=" | ".join(cards), dashes="---:|" * len(cards))
    return head + "".join(lines) if lines else ""
