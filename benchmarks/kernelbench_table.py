"""The KernelBench part of docs/benchmarks.md, from receipts of kernelbench.py. Text only.

One receipt is the emulator's, of every problem; the other, where there is one, of runs on GPUs: each of its
rows names the card that it was judged on last.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from card_names import short

Json = dict[str, Any]

HEAD = """## KernelBench, levels 1 and 2, odd-numbered problems
The even-numbered problems are kept for a final exam and were not looked at. Verdicts on the emulator: the
kernel the playbook expects most of, compiled for sm_90a and held against float64 at small sizes (the
declared ones are planned, not run); problem files and sizes are KernelBench's own. *Library* is the share of
the plan's bytes that library calls move, `-` where all kernels are generated. *Smaller*: the weights are so
large that the emulator was given the problem with its large constants divided by eight. Repeat it with
`python benchmarks/kernelbench.py --root FOLDER`, FOLDER holding the problem files.

"""
GPU_HEAD = """{cards} ({seconds:.0f} s in all; `--device cuda --evaluate SRC`):
our clock against eager and torch.compile at the declared size, the kernel picked before anything was
measured, and the verdict of KernelBench's own unmodified `eval_kernel_against_ref` (float32, CUDA events) on
the exported file, with the speedup over eager that it reports. *Own time* is the share of device time in
generated kernels. A problem no run reached has empty cells. {trained} problems behave otherwise in training
mode, which KernelBench leaves modules in: their files run in torch there, and are not counted.
{note}
"""
SEVERAL = """*Card* is the one that our times are of; where KernelBench's verdict was had on another, that
stands behind it. Every factor compares times of one card; a mean over rows of several is no card's, so each
follows alone too.
"""
NETWORKS_HEAD = """## KernelBench, level 3: whole networks, odd-numbered problems
On an {card}: our clock against eager and torch.compile at the declared size, in float32, of
the one kernel file that the playbook expects most of; nothing was tried and taken back. *Launches* are those
of generated kernels, *library* the share of the device time that library calls take, or of the plan's bytes
where steps were not timed. Repeat it with
`python benchmarks/kernelbench.py --root FOLDER --problems level3/1,level3/3 --device cuda --each 150`.
{note}

"""
NETWORK_COLUMNS = ("problem", "launches", "library", "ours us", "eager us", "compile us", "factor")
CPU_COLUMNS = ("problem", "verdict", "launches", "library")
GPU_COLUMNS = ("ours us", "eager us", "compile us", "factor", "theirs", "their speedup", "own time")


_NOTHING = """
{count} *asks for nothing*: its output is zero for every input tried, as after a minimum with zero and then a
maximum. A kernel that only stores zeros would be right, and how fast it is says nothing. It is refused
before anything is judged, and counted nowhere, neither as right nor as failed.
"""


def kernelbench_section(cpu: Json, gpu: Json | None = None) -> str:
    """Markdown: what was done, a table of all problems, what it adds up to."""
    rows = cpu["problems"]
    measured = gpu["problems"] if gpu else {}
    cards = _cards(measured)
    columns = (*CPU_COLUMNS, *(GPU_COLUMNS if gpu else ()), *(("card",) if len(cards) > 1 else ()))
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * 2}{'---:|' * (len(columns) - 2)}"]
    for name in sorted(rows, key=_order):
        row = measured.get(name, {})
        cells = _cpu_cells(name, rows[name]) + (_gpu_cells(row) if gpu else [])
        cells += [short(row.get("card", ""))] if len(cards) > 1 else []
        lines.append(f"| {' | '.join(cells)} |")
    parts = [HEAD + (_gpu_head(gpu) if gpu else ""), "\n".join(lines), "\n\n", _cpu_foot(rows)]
    return "".join([*parts, _gpu_foot(measured) if gpu else ""]) + "\n"


def networks_section(receipt: Json) -> str:
    """Markdown: every network with its times, or why it has none."""
    rows = receipt["problems"]
    lines = [
        f"| {' | '.join(NETWORK_COLUMNS)} |",
        f"|---|{'---:|' * (len(NETWORK_COLUMNS) - 1)}",
        *(f"| {' | '.join(_network_cells(name, rows[name]))} |" for name in sorted(rows, key=_order)),
    ]
    timed = {name: row for name, row in rows.items() if "time" in row}
    (card,) = _cards(timed)
    others = [
        f"{name} {row['verdict']}: {row['reason']}."
        for name, row in sorted(rows.items())
        if name not in timed
    ]
    told = "\n".join([_added(f"On the {short(card)}", timed), *(f"- {one}" for one in others)])
    return f"{NETWORKS_HEAD.format(card=card, note=receipt['note'])}{chr(10).join(lines)}\n\n{told}\n"


def _network_cells(name: str, row: Json) -> list[str]:
    if "time" not in row:
        return [name, *[""] * 5, row["verdict"]]
    found = row["time"]
    baselines = (f"{found['baselines'][name]:.1f}" for name in ("eager", "compile"))
    share = found.get("library_share", row["library_bytes_share"])
    library = f"{share:.0%}" if row["library"] else "-"
    return [name, str(row["launches"]), library, f"{found['us']:.1f}", *baselines, f"{found['factor']:.2f}"]


def _order(name: str) -> tuple[str, int]:
    level, _, number = name.partition("/")
    return level, int(number)


def asks_for_nothing(row: Json) -> bool:
    """The intake found zeros whatever the inputs: a kernel that only stores zeros is right, and no gain."""
    return row.get("verdict") == "refused" and "is zero, or too small to tell" in row.get("reason", "")


def _cpu_cells(name: str, row: Json) -> list[str]:
    if asks_for_nothing(row):
        return [name, "asks for nothing", "", ""]
    words = row["verdict"] if row["verdict"] == "passed" else f"{row['verdict']}: {_short(row['reason'])}"
    words += " (smaller)" if row.get("smaller") else ""
    library = f"{row['library_bytes_share']:.0%}" if row.get("library") else "-"
    return [name, words, str(row.get("launches", "")), library if row["verdict"] == "passed" else ""]


def _short(text: str) -> str:
    first = text.split(". ")[0].replace("|", " ").replace("\n", " ")
    return first if len(first) <= 110 else f"{first[:107]}..."


def _cards(rows: Json) -> dict[str, int]:
    """How many problems were judged last on each card that a row names."""
    found = sorted(row["card"] for row in rows.values() if row.get("card"))
    return {card: found.count(card) for card in dict.fromkeys(found)}


def _gpu_head(gpu: Json) -> str:
    trained = sum("training" in row.get("export", "") for row in gpu["problems"].values())
    cards = _cards(gpu["problems"])
    where = " and ".join(f"{count} problems on an {card}" for card, count in cards.items())
    note = (SEVERAL if len(cards) > 1 else "") + (f"{gpu['note']}\n" if "note" in gpu else "")
    return GPU_HEAD.format(
        cards=f"On GPUs: {where}" if where else "On a GPU",
        seconds=gpu.get("seconds", 0.0),
        trained=trained,
        note=note,
    )


def _gpu_cells(row: Json) -> list[str]:
    found, theirs = row.get("time", {}), row.get("theirs", {})
    baselines = found.get("baselines", {})
    told = ""
    if "correct" in theirs:
        told = "correct" if theirs["correct"] else "not correct"
        told += f" ({short(_their_card(row))})" if _their_card(row) != row.get("card", "") else ""
    speedup, own = theirs.get("speedup"), theirs.get("own_share")
    verdict, nothing = row.get("verdict", ""), asks_for_nothing(row)
    return [
        f"{found['us']:.1f}" if found else (verdict if verdict != "passed" and not nothing else ""),
        *(f"{baselines[name]:.1f}" if name in baselines else "" for name in ("eager", "compile")),
        f"{found['factor']:.2f}" if "factor" in found else "",
        told,
        f"{speedup:.2f}" if speedup else "",
        f"{own:.0%}" if own is not None else "",
    ]


def _cpu_foot(rows: Json) -> str:
    right = [row for row in rows.values() if row["verdict"] == "passed"]
    nothing = sum(map(asks_for_nothing, rows.values()))
    own = sum(not row["library"] for row in right)
    only = sum(bool(row["library"]) and row["launches"] == 0 for row in right)
    others = len(right) - own - only
    asked = len(rows) - nothing
    return (
        f"{len(right)} of {asked} problems have a right kernel: {own} without a library call, {others} "
        f"with library calls and generated kernels behind them, {only} by library calls alone.\n"
        + (_NOTHING.format(count=nothing) if nothing else "")
    )


def _gpu_foot(rows: Json) -> str:
    cards = _cards(rows)
    if len(cards) < 2:
        return "\n" + _added(f"On the {short(next(iter(cards), 'GPU'))}", rows)
    alone = (_added(f"On the {short(card)} alone", _seen_on(rows, card)) for card in cards)
    return "\n" + "\n".join([_added("On all cards together", rows), *alone])


def _their_card(row: Json) -> str:
    """The card of KernelBench's own evaluation; that of our times where it says none."""
    return str(row.get("theirs", {}).get("metadata", {}).get("hardware", "") or row.get("card", ""))


def _seen_on(rows: Json, card: str) -> Json:
    """Of each row what was found out on a card: our verdict and times, KernelBench's, both or neither."""
    found = {}
    for name, row in rows.items():
        own = {key: row[key] for key in row if key != "theirs"} if row.get("card") == card else {}
        theirs = {"theirs": row["theirs"]} if "theirs" in row and _their_card(row) == card else {}
        found[name] = own | theirs
    return found


def _added(where: str, rows: Json) -> str:
    """What rows add up to, a line a sentence."""
    reached = [row for row in rows.values() if row.get("verdict") and not asks_for_nothing(row)]
    timed = [row["time"] for row in reached if row["verdict"] == "passed" and "factor" in row.get("time", {})]
    failed = sum(row["verdict"] != "passed" for row in reached)
    factors = [one["factor"] for one in timed]
    eager = [one["baselines"]["eager"] / one["us"] for one in timed if "eager" in one["baselines"]]
    # Theirs judges every exported file, also of problems that our clock has not come to.
    theirs = [row["theirs"] for row in rows.values() if "correct" in row.get("theirs", {})]
    speedups = [one["speedup"] for one in theirs if one["correct"] and one["speedup"]]
    lines = [
        f"{where} {len(reached)} problems were judged, {failed} of them without a kernel that passed.",
        f"Against the fastest of eager and torch.compile: {_spread(factors)}.",
        f"The same with failures counted as 1x: {_spread([*factors, *[1.0] * failed])}.",
        f"Against eager: {_spread(eager)}.",
    ]
    if theirs:
        lines.append(
            f"KernelBench's evaluation: {sum(one['correct'] for one in theirs)} of {len(theirs)} correct; "
            f"speedup over eager that it reports: {_spread(speedups)}."
        )
    return "\n".join(lines) + "\n"


def _spread(factors: Sequence[float]) -> str:
    if not factors:
        return "not measured"
    mean = math.exp(sum(map(math.log, factors)) / len(factors))
    above = [sum(factor > limit for factor in factors) / len(factors) for limit in (1.0, 1.5)]
    middle = statistics.median(factors)
    return (
        f"geometric mean {mean:.2f}, median {middle:.2f}, above 1.0 in {above[0]:.0%}, "
        f"above 1.5 in {above[1]:.0%} of {len(factors)}"
    )
