"""What neighbouring results of a convolution see of its input, along a side.

Owns how a transposed convolution with steps falls apart: its results whose places leave the same remainder of
the step meet the same taps, and are those of an ordinary convolution with fewer taps. So does Dumoulin and
Visin, "A guide to convolution arithmetic for deep learning" (2016), by zeros between the elements, which
these phases leave out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from workbench.playbook.ir.program import Convolution, Side
from workbench.playbook.ir.sizes import Size, number

MOST_APART = 64
"""Elements from the first tap to the last of sides that become one: a tile sees so many more."""


@dataclass(frozen=True)
class Places:
    """Results along a side, as those of an ordinary convolution."""

    side: Side
    phases: int
    """Kinds of places, by what taps they meet: the step of a transposed convolution."""
    made: Size
    """Places of a kind, of which the last may be beyond the end."""
    taps: int
    """That a place meets at most."""
    step: int
    """Elements from what one place sees first to what the next of its kind does."""
    padding: int
    """Zeros before the first element that is seen; of kinds of places it depends on the kind."""

    @property
    def all_there(self) -> bool:
        """True where each kind of places has as many."""
        return self.phases == 1 or number(self.phases).divides(self.side.made)

    @property
    def all_taps(self) -> bool:
        """True where each kind of places meets as many taps."""
        return self.side.taps % self.phases == 0

    @property
    def may_miss(self) -> bool:
        """True where a tap may meet no element."""
        return self.padding != 0 or self.phases > 1

    @property
    def inverse(self) -> int:
        """Of the dilation, among remainders of the step: a place's own, times this, is its lowest tap."""
        return pow(self.side.dilation, -1, self.phases) if self.phases > 1 else 0


def places_of(made: Convolution, side: Side) -> Places:
    """Of one side."""
    if not made.transposed:
        return Places(side, 1, side.made, side.taps, side.stride, side.padding)
    phases = side.stride
    taps = math.ceil(side.taps / phases)
    step = number(phases)
    many = side.made // step if step.divides(side.made) else (side.made + number(phases - 1)) // step
    return Places(side, phases, many, taps, 1, side.dilation * (side.taps - 1) - side.padding)


def phases_of(made: Convolution) -> int:
    """Kinds of places along all sides."""
    return math.prod(places_of(made, side).phases for side in made.sides)


def met_taps_of(made: Convolution) -> int:
    """Taps that a place meets at most."""
    return math.prod(places_of(made, side).taps for side in made.sides)


def flattened(made: Convolution) -> Convolution:
    """The same convolution with fewer sides: one along which there is a single tap joins that outside it.

    Windows of 1 x 1 so see one long line, those of 3 x 1 a line with taps a row apart. Where results are
    pooled behind it, sides stay what they are: neighbours along each are needed together.
    """
    if made.windows:
        return made
    sides = [side for side, _ in _sides_together(made)]
    return made if len(sides) == len(made.sides) else replace(made, sides=tuple(sides))


def sides_together(made: Convolution) -> list[int]:
    """How many sides each of a flattened convolution stands for."""
    if made.windows:
        return [1] * len(made.sides)
    return [count for _, count in _sides_together(made)]


def _sides_together(made: Convolution) -> list[tuple[Side, int]]:
    found = [(made.sides[-1], 1)]
    for outer in reversed(made.sides[:-1]):
        inner, count = found[0]
        joined = _joined(outer, inner)
        found[:1] = [(outer, 1), found[0]] if joined is None else [(joined, count + 1)]
    return found


def _joined(outer: Side, inner: Side) -> Side | None:
    """Both as one; None where they are none, or where its taps would be far apart."""
    single = (inner.taps, inner.stride, inner.padding) == (1, 1, 0) and inner.read == inner.made
    if not single or outer.stride != 1:
        return None
    length = inner.read.number
    apart = outer.taps > 1 or outer.padding > 0
    if apart and (length is None or (outer.taps - 1) * outer.dilation * length > MOST_APART):
        return None
    return Side(
        read=outer.read * inner.read,
        made=outer.made * inner.made,
        taps=outer.taps,
        stride=1,
        padding=outer.padding * (length or 0),
        dilation=outer.dilation * (length or 1) if outer.taps > 1 else 1,
    )
