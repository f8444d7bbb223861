"""Values that come again along the line of a kernel without rows, and are slow to compute.

The cosines of a rotary embedding are the same for all heads, and computed for each element they are most of
what its kernel does. Owns which values those are, and how far apart they come again. Never writes text;
copies.py says when the elements of a thread lie that far apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.playbook.analysis.arithmetic import instructions_of, slow_instructions
from workbench.playbook.ir.expr import Expr, Index, Load, Reduction, always_below, unguarded, walk_all
from workbench.playbook.ir.operations import is_float
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import ONE, Size
from workbench.playbook.ir.views import NotAView, View, merged, runs

_DEAR = 10.0
"""Instructions from which on a value is worth a register that holds it for the next rows: a division has as
many, what is cheaper is as soon computed again."""
_SLOW = 24.0
"""Instructions of all such values together from which on rows are laid out for their sake: a cosine's."""


@dataclass(frozen=True)
class Repeats:
    """A line as (sets, times, row): all ``times`` rows of a set have the same values."""

    sets: Size
    times: Size
    row: Size
    values: tuple[Expr, ...] = ()
    """The largest that are dear."""

    def has(self, view: View) -> bool:
        """True where all rows of a set find the same."""
        try:
            _, middle, _ = runs(view, (self.sets, self.times, self.row))
        except NotAView:
            return False
        return all(axis.stride.is_zero for axis in middle)


def slow_repeats(kernel: Kernel, declared: Sequence[Mapping[str, int]]) -> Repeats | None:
    """The rows whose values save most instructions; None where none are slow, or nothing comes again."""
    roots = [store.value for store in kernel.stores]
    if kernel.stores[0].level != "flat" or not declared or instructions_of(roots, False) < _SLOW:
        return None
    best, most = None, 0.0
    for repeats in _candidates(roots, kernel.stores[0].columns):
        times = min(repeats.times.at(case) for case in declared)
        if times < 2:
            continue
        values = tuple(_values(repeats, roots))
        slow = instructions_of(values, False)
        saved = slow * (1 - 1 / times)
        if slow >= _SLOW and saved > most:
            best, most = replace(repeats, values=values), saved
    return best


_Span = tuple[Size, Size]
"""Elements of a row, and of all copies of it that follow: a leaf finds the same in each of them."""


def _candidates(roots: Sequence[Expr], line: Size) -> Iterator[Repeats]:
    """Every way in which some leaf, or two of them at the same time, come again."""
    spans = dict.fromkeys(span for leaf in unguarded(*roots) for span in _spans(leaf))
    both = (_common(one, other) for one in spans for other in spans)
    for row, end in dict.fromkeys(span for span in both if span is not None):
        yield Repeats(line // end, end // row, row)


def _spans(leaf: Expr) -> Iterator[_Span]:
    inner = ONE
    for axis in reversed(merged(leaf.view).axes if isinstance(leaf, (Load, Index)) else ()):
        if axis.stride.is_zero:
            yield inner, inner * axis.size
        inner = inner * axis.size


def _common(one: _Span, other: _Span) -> _Span | None:
    """Where both come again; None where nothing does, or a row would be one element."""
    row = other[0] if one[0].divides(other[0]) else one[0]
    end = one[1] if one[1].divides(other[1]) else other[1]
    nested = all(span[0].divides(row) and end.divides(span[1]) for span in (one, other))
    return (row, end) if nested and row.divides(end) and row not in (end, ONE) else None


def _values(repeats: Repeats, roots: Sequence[Expr]) -> Iterator[Expr]:
    """The largest parts of ``roots`` that come again and are dear, operands first.

    Numbers alone: a place that is looked up is computed where its vector is loaded. What is cheap once the
    others are there is computed of them.
    """
    known = set[int]()
    for value in sorted(_largest(repeats, roots), key=lambda expr: expr.serial):
        if is_float(value.dtype) and slow_instructions(value, known) >= _DEAR:
            known.add(value.serial)
            yield value


def _largest(repeats: Repeats, roots: Sequence[Expr]) -> Iterator[Expr]:
    """What comes again, of what is computed in any case; not what is below it."""
    same = _same(repeats, roots)
    seen = set[int]()
    stack = list(roots)
    while stack:
        expr = stack.pop()
        if expr.serial in seen:
            continue
        seen.add(expr.serial)
        if expr.serial in same:
            yield expr
        else:
            stack.extend(always_below(expr))


def _same(repeats: Repeats, roots: Sequence[Expr]) -> set[int]:
    """By serial what all rows of a set have in common, of what is below the roots."""
    found = set[int]()
    for expr in walk_all(roots):
        match expr:
            case Load(view=view) | Index(view=view):
                is_same = repeats.has(view)
            case Reduction():
                is_same = False
            case _:
                is_same = True
        if is_same and all(operand.serial in found for operand in expr.operands):
            found.add(expr.serial)
    return found
