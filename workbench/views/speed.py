"""How fast a branch is: each shape against each baseline, with what is known about the time. Pure.

Owns the table of factors and the sentences about a measurement. A factor is a baseline's time over the
kernel's: above 1 the kernel is faster.
"""

from __future__ import annotations

import math
from typing import Any

from workbench.model import CaseTime, Conditions, Evaluation, Measured, Rival
from workbench.views.phrases import (
    factor_interval_text,
    factor_text,
    number,
    time_interval_text,
    time_text,
)
from workbench.views.plots import bars, factors
from workbench.views.steps import steps_json

Json = dict[str, Any]
BASELINES = ("eager", "compile", "compile max-autotune", "graph of eager", "graph of compile")
"""In this order where they are known; others follow."""
VERDICTS = {
    "FASTER": ("good", "● ours faster"),
    "SAME": ("quiet", "= the same"),
    "SLOWER": ("bad", "▼ ours slower"),
    "AMBIGUOUS": ("warn", "? ambiguous"),
}
ABOVE = 1.03
"""Share of the roofline from which being above it is explained."""
CLOCK = "clock "
"""How a clock that could not be used is named among what is missing."""


def speed_json(evaluation: Evaluation) -> Json | None:
    """Factors of every shape and their mean; None when nothing was timed."""
    if not evaluation.times:
        return None
    names = _baselines(evaluation)
    rows = [_row(time, names) for time in evaluation.times]
    return {
        "source": evaluation.times[0].source,
        "baselines": names,
        "rows": rows,
        "note": _above_the_roof(evaluation),
        "means": [_mean(rows, place) for place in range(len(names))],
        "mean": factor_text(evaluation.score) if evaluation.score else "–",
        "drawing": factors(rows),
    }


def _above_the_roof(evaluation: Evaluation) -> str:
    """What a share of more than all of the roofline means; empty where there is none."""
    if all(time.roofline_share < ABOVE for time in evaluation.times):
        return ""
    return (
        "More than 100% of the roofline: it counts every byte as moved to or from memory, and here some of "
        "them stay in the L2 cache."
    )


def _baselines(evaluation: Evaluation) -> list[str]:
    known = dict.fromkeys(name for time in evaluation.times for name, _ in time.baselines)
    listed = [name for name in BASELINES if name in known]
    return listed + [name for name in known if name not in listed]


def _row(time: CaseTime, names: list[str]) -> Json:
    rivals = {rival.name: rival for rival in time.measured.rivals} if time.measured else {}
    known = dict(time.baselines)
    measured = time.measured
    return {
        "case": time.case,
        "time": time_text(time.time_us),
        "interval": time_interval_text(measured.low_us, measured.high_us) if measured else "",
        "roofline": f"{100 * time.roofline_share:.0f}%",
        "speedup": factor_text(time.speedup) if time.baselines else "–",
        "tone": _tone(time),
        "suspicion": measured.suspicion if measured else "",
        "cells": [_cell(name, known[name], time, rivals.get(name)) if name in known else None
                  for name in names],
    }  # fmt: skip


def _tone(time: CaseTime) -> str:
    """Against the fastest baseline: by the verdict where it was measured, else by the factor."""
    if time.measured and time.measured.verdict:
        return VERDICTS[time.measured.verdict][0]
    return _tone_of(time.speedup)


def _tone_of(ratio: float) -> str:
    return "quiet" if 0.995 < ratio < 1.005 else "good" if ratio > 1 else "bad"


def _cell(name: str, time_us: float, time: CaseTime, rival: Rival | None) -> Json:
    if rival is None:
        ratio = time_us / time.time_us
        return _factor(name, ratio, _tone_of(ratio), "")
    tone, words = VERDICTS[rival.verdict]
    cell = _factor(name, rival.ratio, tone, words)
    return {**cell, "low": rival.low, "high": rival.high,
            "interval": factor_interval_text(rival.low, rival.high), "blocks": rival.blocks}  # fmt: skip


def _factor(name: str, ratio: float, tone: str, words: str) -> Json:
    return {"name": name, "ratio": round(ratio, 4), "low": None, "high": None, "text": factor_text(ratio),
            "interval": "", "tone": tone, "words": words, "blocks": None}  # fmt: skip


def _mean(rows: list[Json], place: int) -> str:
    """Geometric mean over the shapes; a dash where a shape has no such baseline."""
    ratios = [row["cells"][place]["ratio"] for row in rows if row["cells"][place]]
    if len(ratios) < len(rows) or min(ratios) <= 0:
        return "–"
    return factor_text(math.exp(sum(map(math.log, ratios)) / len(ratios)))


# ------------------------------------------------------------------------------------ one shape


def time_json(time: CaseTime) -> Json:
    """One case's time with its baselines; ``source`` is ``model`` or ``measured``."""
    return {
        "case": time.case,
        "source": time.source,
        "time_us": number(time.time_us),
        "time": time_text(time.time_us),
        "floor_us": number(time.floor_us),
        "floor": time_text(time.floor_us),
        "speedup": factor_text(time.speedup),
        "roofline_percent": round(100 * time.roofline_share),
        "bound": time.bound,
        "baselines": [_baseline(name, us, time) for name, us in time.baselines],
        "note": time.note,
        "measured": _measured(time.measured) if time.measured else None,
    }


def timing_json(time: CaseTime) -> Json:
    """The same with its drawing, for a view of one branch."""
    found = time_json(time)
    facts = _facts(time.measured) if time.measured else []
    return {**found, "facts": facts, "drawing": bars(found), "steps": steps_json(time)}


def _baseline(name: str, time_us: float, time: CaseTime) -> Json:
    """Its time; the interval is that of the factor, laid on the kernel's time."""
    rivals = time.measured.rivals if time.measured else ()
    rival = next((one for one in rivals if one.name == name), None)
    interval = [number(rival.low * time.time_us), number(rival.high * time.time_us)] if rival else None
    return {"name": name, "time_us": number(time_us), "time": time_text(time_us), "interval_us": interval}


def _measured(found: Measured) -> Json:
    """How a time was measured: its interval, rivals with theirs, the card's state, what is missing."""
    card = found.conditions
    return {
        "clock": found.clock,
        "low_us": number(found.low_us),
        "high_us": number(found.high_us),
        "interval": time_interval_text(found.low_us, found.high_us),
        "samples": found.samples,
        "spread_percent": round(100 * found.relative_stdev, 2),
        "warm": time_text(found.warm_us) if found.warm_us is not None else "",
        "host": time_text(found.host_us) if found.host_us is not None else "",
        "graph": time_text(found.graph_us) if found.graph_us is not None else "",
        "rivals": [_rival(rival) for rival in found.rivals],
        "missing": [f"{name}: {why}" for name, why in found.missing if not name.startswith(CLOCK)],
        "clocks_missing": [
            f"{name.removeprefix(CLOCK)}: {why}" for name, why in found.missing if name.startswith(CLOCK)
        ],
        "crosschecks": [f"{name} {time_text(us)}" for name, us in found.crosschecks],
        "clocks": _clocks(card),
        "power": f"{card.power_w:.0f} W" if card.power_w else "",
        "temperature": f"{card.temperature_c} °C" if card.temperature_c else "",
        "throttled": list(card.throttled),
        "suspicion": found.suspicion,
        "receipt": found.receipt,
    }


def _clocks(card: Conditions) -> str:
    """``1980 MHz``, ``1755 to 1980 MHz``; empty where it was not seen."""
    seen = sorted({card.sm_mhz_low, card.sm_mhz_high} - {0})
    return f"{' to '.join(map(str, seen))} MHz" if seen else ""


def _rival(rival: Rival) -> Json:
    tone, words = VERDICTS[rival.verdict]
    return {
        "name": rival.name,
        "time": time_text(rival.time_us),
        "ratio": factor_text(rival.ratio),
        "interval": factor_interval_text(rival.low, rival.high),
        "verdict": rival.verdict.lower(),
        "tone": tone,
        "words": words,
        "blocks": rival.blocks,
    }


def _facts(found: Measured) -> list[list[str]]:
    """Name and value of what else was seen while the clock ran."""
    known, card = _measured(found), found.conditions
    seen = (known["clocks"], known["power"], known["temperature"])
    facts = [
        ("samples", f"{found.samples}, spread {known['spread_percent']:.2g}%, {found.clock} clock"),
        ("other clocks", ", ".join(known["crosschecks"])),
        ("warm caches", known["warm"]),
        ("host, one call", known["host"]),
        ("in a CUDA graph", known["graph"]),
        ("card while timed", ", ".join(filter(None, seen))),
        ("slowed down by", ", ".join(card.throttled)),
        ("blocks left out", f"{card.dropped}: the card slowed itself down" if card.dropped else ""),
        ("others on the card", str(card.other_processes) if card.other_processes else ""),
        ("not held against", "; ".join(known["missing"])),
        ("clock not used", "; ".join(known["clocks_missing"])),
    ]
    return [[name, value] for name, value in facts if value]
