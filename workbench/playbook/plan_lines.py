"""Lines of the plan language: calls, branches, sizes as they are best spelt.

Owns their layout; plan_text.py says what stands in them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from workbench.playbook.sizes import Size

LONGEST = 104
"""Characters of a line."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_COPY = re.compile(r'(\w+) = (\w+) if \2\.is_contiguous else library\("aten\.contiguous", \2\)$')


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


def without_unused_rows(lines: Sequence[str]) -> list[str]:
    """Lines of a plan without copies of library results, as rows, that nothing uses."""
    used = Counter(name for line in lines for name in _NAME.findall(line))
    copied = ((line, _COPY.match(line)) for line in lines)
    return [line for line, copy in copied if copy is None or used[copy[1]] > 1]
