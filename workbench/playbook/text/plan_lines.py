"""Lines of the plan language: calls, branches, sizes as they are best spelt.

Owns their layout; plan_text.py says what stands in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import Order, in_order, put_back, strides_in
from workbench.playbook.text.indexing import WidthRule

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


def width_text(rule: WidthRule, spelt: Callable[[Size], str]) -> str:
    """The widest vectors that sizes and pointers allow, down to half of what is wished for."""
    choices = []
    known = [size.number for size in rule.divisors if size.number is not None]
    for width in dict.fromkeys((rule.width, max(rule.width // 2, 2))):
        if any(number % width for number in known):
            continue
        condition = _width_condition(rule, width, spelt)
        choices.append(f"{width} if {condition}" if condition else str(width))
        if not condition:
            return " else ".join(choices)
    return " else ".join([*choices, "1"])


def _width_condition(rule: WidthRule, width: int, spelt: Callable[[Size], str]) -> str:
    sizes = [size for size in rule.divisors if size.number is None]
    checks = [f"{atom(spelt(size))} % {width} == 0" for size in sizes]
    for count in sorted({count for _, count in rule.buffers}):
        facts = [f"{name}.alignment" for name, aligned in rule.buffers if aligned == count]
        least = facts[0] if len(facts) == 1 else f"min({', '.join(facts)})"
        checks.append(f"{least} >= {count * width // rule.width}")
    return " and ".join(checks)


def row_major(
    rows: str, name: str, shape: Sequence[Size], order: Order, spelt: Callable[[Sequence[Size]], str]
) -> list[str]:
    """``rows``: a library result as a row-major tensor, of its own axes or of these in the order they lie in.

    ``shape`` is that of ``rows``, ``order`` the expected layout of ``name``; None is row-major.
    """
    if order is None:
        return [f'{rows} = {name} if {name}.is_contiguous else library("aten.contiguous", {name})']
    # What reads the result is written for one layout: torch may choose another on another machine.
    expected = spelt(strides_in(in_order(shape, put_back(order)), order))
    along = spelt(strides_in(shape, range(len(shape))))
    turned = f'library("aten.permute", {name}, {tuple(order)})'
    return branch(
        f"{name}.strides == {expected}",
        called("view", [name, spelt(shape), along], prefix=f"{rows} = "),
        called("library", ['"aten.contiguous"', turned], prefix=f"{rows} = "),
    )
