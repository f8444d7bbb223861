"""Reads what ``ncu --csv --page raw`` prints. Pure text to values.

The page is one CSV table among lines of the program and of the profiler: a row of names, a row of units,
then a row for each launch (Nsight Compute CLI guide, "Console Output" and "Page raw").
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from workbench.model import KernelProfile
from workbench.profile.metrics import BY_COUNTER

UNITS: Mapping[str, float] = {
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9,
    "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9,
}  # fmt: skip
"""What one of a printed unit is in nanoseconds or bytes; counters without a unit stay as they are."""


def read_page(text: str) -> tuple[KernelProfile, ...]:
    """A profile for each launch in the table; none without a table. Other columns are passed over."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return ()
    rows = list(csv.reader(io.StringIO("\n".join(line for line in lines[start:] if line.startswith('"')))))
    names, units = rows[0], rows[1] if len(rows) > 1 else []
    return tuple(_launch(names, units, row) for row in rows[2:] if len(row) == len(names))


def _launch(names: list[str], units: list[str], row: list[str]) -> KernelProfile:
    cells = dict(zip(names, row, strict=True))
    unit_of = dict(zip(names, units, strict=False))
    metrics = []
    for counter, metric in BY_COUNTER.items():
        value = _number(cells.get(counter, ""))
        if value is not None:
            scale = UNITS.get(unit_of.get(counter, ""), 1.0)
            metrics.append((metric.name, value * scale * metric.scale))
    return KernelProfile(kernel=cells.get("Kernel Name", "").partition("(")[0], metrics=tuple(metrics))


def _number(text: str) -> float | None:
    """None for ``n/a`` and for what this GPU does not count."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if value == value and abs(value) != float("inf") else None
