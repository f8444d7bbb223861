"""Numbers as people read them, and as JSON may hold them. Owns wording of quantities, nothing else."""

from __future__ import annotations

import math


def number(value: float | None) -> float | str | None:
    """A JSON-safe number: NaN and infinities become the words ``nan``, ``inf``, ``-inf``."""
    if value is None or math.isfinite(value):
        return value
    return str(value)


def time_text(time_us: float) -> str:
    """``12.3 us`` or ``4.56 ms``: three figures with the unit that suits."""
    for limit, scale, unit in ((1e3, 1.0, "us"), (1e6, 1e3, "ms")):
        if time_us < limit:
            return f"{time_us / scale:.3g} {unit}"
    return f"{time_us / 1e6:.3g} s"


def bytes_text(count: int) -> str:
    """``512 B``, ``1.5 KiB``, ``1.07 GiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"
        size /= 1024
    raise AssertionError("unreachable: the last unit always returns")


def count_text(count: int) -> str:
    """Thousands grouped: ``1,048,576``."""
    return f"{count:,}"


def factor_text(factor: float) -> str:
    """``2.13x``; one decimal from ten up."""
    return f"{factor:.2f}x" if factor < 9.95 else f"{factor:.1f}x"


def error_text(value: float | None) -> str:
    """``1.2e-07``, or a dash where nothing was compared."""
    if value is None:
        return "–"
    return "0" if value == 0 else f"{value:.1e}"


def bound_text(ratio: float) -> str:
    """Error over bound in words: ``7.4% of what the arithmetic allows``."""
    if not ratio < 1e30:  # the comparison's word for NaN and infinity where there should be none
        return "beyond any bound: NaN or infinity"
    share = f"{100 * ratio:.2g}%" if ratio <= 1 else f"{ratio:.3g} times"
    return f"{share} of what the arithmetic allows" if ratio <= 1 else f"{share} what the arithmetic allows"


def plural(count: int, noun: str) -> str:
    """``1 branch``, ``3 branches``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}es" if noun.endswith(("ch", "s", "x")) else f"{count} {noun}s"


def duration_text(seconds: float) -> str:
    """``under 5 s``, ``about 40 s``, ``about 3 min``."""
    if seconds < 5:
        return "under 5 s"
    if seconds < 90:
        return f"about {5 * round(seconds / 5)} s"
    return f"about {round(seconds / 60)} min"
