"""Which side of a comparison every place of a view lies on: a slice of a concatenation may have one piece,
and what is taken from inside a tensor knows nothing of what was put at its edges.

Owns the proof, which holds for all sizes; where sizes decide, there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.playbook.ir.sizes import ONE, Size
from workbench.playbook.ir.views import View

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


@dataclass(frozen=True)
class Span:
    """Where whole numbers lie, both ends included."""

    low: Size
    high: Size

    def __add__(self, other: Span) -> Span:
        return Span(self.low + other.low, self.high + other.high)

    def __neg__(self) -> Span:
        return Span(-self.high, -self.low)

    def below(self, other: Span) -> bool:
        """True where every number of this one is less than every number of the other, whatever the sizes."""
        return is_natural(other.low + -(self.high + ONE))

    def compared(self, op: str, other: Span) -> bool | None:
        """What one of ``COMPARISONS`` comes to for all numbers of both; None if that depends."""
        match op:
            case "lt":
                return True if self.below(other) else False if (other + _LESS_ONE).below(self) else None
            case "ge":
                return _opposite(self.compared("lt", other))
            case "gt":
                return other.compared("lt", self)
            case "le":
                return _opposite(other.compared("lt", self))
            case "ne":
                return _opposite(self.compared("eq", other))
        if self.below(other) or other.below(self):
            return False
        return True if self.low == self.high == other.low == other.high else None


_LESS_ONE = Span(-ONE, -ONE)


def _opposite(told: bool | None) -> bool | None:
    return None if told is None else not told


def span_of(view: View) -> Span | None:
    """Where the elements of a view lie; None where a size decides which way it goes."""
    low = high = view.offset
    for axis in view.axes:
        way = (axis.size + -ONE) * axis.stride
        if is_natural(axis.stride):
            high = high + way
        elif is_natural(-axis.stride):
            low = low + way
        else:
            return None
    return Span(low, high)


def all_below(view: View, bound: Size) -> bool | None:
    """True where all elements of a view lie below ``bound``, False where none does; None if that depends."""
    span = span_of(view)
    return None if span is None else span.compared("lt", Span(bound, bound))


def is_natural(size: Size) -> bool:
    """True when no symbol can make it negative: a sum of sizes, none of them taken off."""
    if size.number is not None:
        return size.number >= 0
    summands = size.terms or ((size.factors, size.coefficient),)
    return all(n >= 0 and all(text.isidentifier() for text in factors) for factors, n in summands)
