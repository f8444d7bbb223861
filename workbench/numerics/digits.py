"""Numbers in as few digits as tell them apart. Owns that choice; knows no errors or bounds."""

from __future__ import annotations

_ALL_DIGITS = 17


def digits_apart(value: float, other: float, least: int) -> int:
    """Significant digits, at least so many, in which two numbers read differently where they differ."""
    return next((n for n in range(least, _ALL_DIGITS) if f"{value:.{n}g}" != f"{other:.{n}g}"), _ALL_DIGITS)


def apart(value: float, other: float, least: int) -> str:
    """A number in digits that tell it apart from another."""
    return f"{value:.{digits_apart(value, other, least)}g}"
