"""Elements that neighbouring results share: what a vector of results needs of them, read as one vector.

Two results out of one byte, of a pair of numbers that is turned, of a scale for every other place: result
``i`` finds element ``i / 2``, or the pair that begins there. Read for each result by itself, a vector of
eight is eight loads of four elements. Owns which loads those are; shared_loads.py writes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from workbench.playbook.ir.expr import Apply, Expr, Load
from workbench.playbook.ir.sizes import Size, number
from workbench.playbook.ir.views import Axis, View
from workbench.playbook.text.indexing import divisors_of, is_unit

_MOST = 8
"""Results that share an element, or a group of as many."""


@dataclass(frozen=True)
class Shared:
    """A load of an element that ``results`` neighbours share."""

    load: Load
    results: int
    begin: View
    """Where the vector begins: the first of the group that the element is of."""
    place: int | None
    """Which of its group it is; None where groups are single elements."""

    @property
    def whole(self) -> tuple[Size, ...]:
        """Sizes that the width must divide, as a row of results has them."""
        if self.place is not None:
            spread = View(
                (*self.begin.axes[:-2], _along(self.begin.axes[-2], self.results)), self.begin.offset
            )
            return divisors_of(spread)
        single = View(self.begin.axes[:-1], self.begin.offset)
        return tuple(size * number(self.results) for size in divisors_of(single))


def _along(axis: Axis, results: int) -> Axis:
    """The axis of groups as one of elements."""
    return Axis(axis.size * number(results), number(1))


def shared_elements(roots: Iterable[Expr], width: int) -> list[Shared]:
    """The loads of that kind that are made whichever way conditions go, of vectors of ``width``.

    Of a group all elements must be asked for: where nobody reads the last of them, it need not exist.
    """
    found: dict[int, Load] = {}
    known: dict[int, frozenset[Load]] = {}
    for root in roots:
        found.update((load.serial, load) for load in _always(root, known))
    loads = [found[serial] for serial in sorted(found)]
    able = [one for load in loads if (one := _shared(load)) and width % one.results == 0]
    places = Counter((one.load.buffer, one.begin) for one in able)
    return [one for one in able if one.place is None or places[one.load.buffer, one.begin] == one.results]


def _always(expr: Expr, known: dict[int, frozenset[Load]]) -> frozenset[Load]:
    """Loads of an expression on every way through its conditions: both pieces of a choice have them."""
    if expr.serial not in known:
        parts = [_always(operand, known) for operand in expr.operands]
        if isinstance(expr, Load):
            made = frozenset([expr]).union(*parts)
        elif isinstance(expr, Apply) and expr.op == "select":
            made = parts[0] | (parts[1] & parts[2])
        else:
            made = frozenset[Load]().union(*parts)
        known[expr.serial] = made
    return known[expr.serial]


def _shared(load: Load) -> Shared | None:
    view = load.view
    if load.lookups or len(view.axes) < 2 or not view.axes[-1].stride.is_zero:
        return None
    results = view.axes[-1].size.number
    if results is None or not 2 <= results <= _MOST or results & (results - 1):
        return None
    if is_unit(View(view.axes[:-1])):
        return Shared(load, results, view, None)
    offset = view.offset.number
    if view.axes[-2].stride.number != results or offset is None:
        return None
    place = offset % results
    return Shared(load, results, replace(view, offset=number(offset - place)), place)
