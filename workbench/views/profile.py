"""Where a kernel's time goes, for the profile tab: sentences first, then the numbers behind them. Pure."""

from __future__ import annotations

from typing import Any

from workbench.model import Evaluation
from workbench.views.phrases import number

Json = dict[str, Any]
UNITS = (
    ("_percent", "%"),
    ("_bytes_per_s", "B/s"),
    ("_bytes", "B"),
    ("_us", "us"),
    ("_ns", "ns"),
    ("_mhz", "MHz"),
)
PREFIXES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
SOURCES = {
    "counters": "Read from the hardware's counters by Nsight Compute",
    "estimate": "An estimate from resources, plan and time: no counters were read",
}


def profile_json(evaluation: Evaluation) -> Json | None:
    """The profile with each metric's name and unit apart; None when there is none."""
    profile = evaluation.profile
    if profile is None:
        return None
    return {
        "case": profile.case,
        "source": profile.source,
        "words": SOURCES[profile.source],
        "bound": profile.bound or "",
        "sentences": list(profile.sentences),
        "note": profile.note,
        "kernels": [
            {"kernel": one.kernel, "metrics": [_metric(name, value) for name, value in one.metrics]}
            for one in profile.kernels
        ],
    }


def _metric(name: str, value: float) -> Json:
    for ending, unit in UNITS:
        if name.endswith(ending):
            return _entry(name.removesuffix(ending), value, unit)
    return _entry(name, value, "")


def _entry(name: str, value: float, unit: str) -> Json:
    """Bytes in the prefix that suits; ``value`` is a number or, for NaN and infinity, a word."""
    for prefix, size in PREFIXES if unit in ("B", "B/s") else ():
        if abs(value) >= size:
            value, unit = value / size, f"{prefix}{unit}"
            break
    return {"name": name.replace("_", " "), "value": number(value), "unit": unit}
