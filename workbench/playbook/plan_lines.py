"""Lines of the plan language: calls, branches, sizes as they are best spelt.

Owns their layout; plan_text.py says what stands in them.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.playbook.sizes import Size

LONGEST = 104
"""Characters of a line."""


def branch(condition: str, yes: list[str], no: list[str]) -> list[str]:
    return [f"if {condition}:", *(f"    {line}" for line in yes), "else:", *(f"    {line}" for line in no)]


def plainest(dims: Sequence[Size]) -> dict[Size, Size]:
    known = {size: size for size in reversed(dims)}
    known.update({size: size for size in dims if not known[size].factors or len(size.factors) == 1})
    for first in dims:
        for second in dims:
            known.setdefault(first * second, first * second)
    return known


def axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def atom(text: str) -> str:
    return f"({text})" if " " in text else text


def called(name: str, parts: Sequence[str], prefix: str = "") -> list[str]:
    """One line where it fits, else one argument a line."""
    line = f"{prefix}{name}({', '.join(parts)})"
    if len(line) <= LONGEST - 4:
        return [line]
    return [f"{prefix}{name}(", *(f"    {part}," for part in parts), ")"]
