"""Numbers as people read them, and as JSON may hold them. Owns wording of quantities, nothing else."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path


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
    """``2.13x``; one decimal from ten up, two figures below a tenth: ``0.0042x``."""
    if 0 < factor < 0.095:
        return f"{factor:.2g}x" if factor >= 1e-4 else "under 0.0001x"
    return f"{factor:.2f}x" if factor < 9.95 else f"{factor:.1f}x"


def baseline_text(name: str) -> str:
    """``torch.compile``, ``eager``, ``graph of torch.compile``: a baseline as people call it."""
    plain = name.removesuffix(" (model)")
    return plain if "torch." in plain else plain.replace("compile", "torch.compile")


def spread_text(factors: Sequence[tuple[str, float]]) -> str:
    """``0.74x at 4096x1024 to 1.58x at 1x1048576``: worst and best shape; empty where all are as good."""
    if len(factors) < 2:
        return ""
    worst, best = min(factors, key=lambda pair: pair[1]), max(factors, key=lambda pair: pair[1])
    if factor_text(worst[1]) == factor_text(best[1]):
        return ""
    return f"{factor_text(worst[1])} at {worst[0]} to {factor_text(best[1])} at {best[0]}"


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


def share_text(ratio: float | None) -> str:
    """Error over bound as a share: ``8.5%``, ``under 0.1%``, ``37x``; a dash where nothing was compared."""
    if ratio is None:
        return "–"
    if not ratio < 1e30:
        return "NaN or infinity"
    if ratio > 1:
        return f"{ratio:.3g}x"
    if ratio >= 0.1:
        return f"{100 * ratio:.0f}%"
    return f"{100 * ratio:.2g}%" if ratio >= 1e-3 else "0" if ratio == 0 else "under 0.1%"


def plural(count: int, noun: str) -> str:
    """``1 branch``, ``3 branches``, ``2 tries``."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("ry"):
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}es" if noun.endswith(("ch", "s", "x")) else f"{count} {noun}s"


def listed(words: Sequence[str]) -> str:
    """``b3``, ``b3 and b2``, ``b3, b2 and b7``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def duration_text(seconds: float) -> str:
    """``under 5 s``, ``about 40 s``, ``about 3 min``."""
    if seconds < 5:
        return "under 5 s"
    if seconds < 90:
        return f"about {5 * round(seconds / 5)} s"
    return f"about {round(seconds / 60)} min"


def number_text(value: float) -> str:
    """Four figures: ``550.9``, ``12.69``, ``1739``."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _places(low: float, high: float) -> int:
    """Decimals that show a width in two figures, three at most."""
    width = high - low
    return max(0, min(3, 1 - math.floor(math.log10(width)))) if width > 0 else 3


def time_interval_text(low_us: float, high_us: float) -> str:
    """``550.5 to 551.4 us``: as many decimals as it takes to tell the ends apart."""
    for limit, scale, unit in ((1e3, 1.0, "us"), (1e6, 1e3, "ms"), (math.inf, 1e6, "s")):
        if high_us < limit:
            low, high = low_us / scale, high_us / scale
            places = _places(low, high)
            return f"{low:.{places}f} to {high:.{places}f} {unit}"
    return ""


def factor_interval_text(low: float, high: float) -> str:
    """``1.220x to 1.222x``."""
    places = max(2, _places(low, high)) if high < 9.95 else _places(low, high)
    return f"{low:.{places}f}x to {high:.{places}f}x"


def short_duration_text(seconds: float) -> str:
    """``0.5 s``, ``12 s``, ``3 min``."""
    if seconds < 10:
        return f"{max(seconds, 0.1):.1f} s"
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def shown_path(path: Path) -> str:
    """As somebody would type it here."""
    here = Path.cwd()
    path = path.resolve()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
