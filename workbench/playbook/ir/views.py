"""How a linear index over a space finds its element in a buffer: strided axes in row-major order.

Owns the algebra of views: reshape, permute, expand, slice, merge. A view's axes need not be the
logical axes of a tensor; they only run in the same linear order, so a reshape changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from workbench.playbook.ir.sizes import ONE, ZERO, Size, number, product


class NotAView(Exception):
    """A logical axis cuts through a strided axis: the tensor has to be written out first."""


@dataclass(frozen=True)
class Axis:
    """``size`` steps of ``stride`` elements each."""

    size: Size
    stride: Size


@dataclass(frozen=True)
class View:
    """Axes from slowest to fastest, and an offset in elements."""

    axes: tuple[Axis, ...]
    offset: Size = ZERO
    is_merged: bool = field(default=False, compare=False, repr=False)
    """True where it is known to have as few axes as possible."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.axes, self.offset))

    @property
    def size(self) -> Size:
        """Number of indices."""
        return product(axis.size for axis in self.axes)

    @property
    def is_constant(self) -> bool:
        """True when every index finds the same element."""
        return all(axis.stride.is_zero for axis in self.axes)

    @property
    def is_linear(self) -> bool:
        """True when index ``i`` finds element ``i``."""
        return self.offset.is_zero and self.axes in ((), (Axis(self.size, ONE),))


Runs = tuple[tuple[Axis, ...], ...]
Order = tuple[int, ...] | None
"""Axes of a tensor from slowest to fastest in memory; None is row-major."""


def in_order(shape: Sequence[Size], order: Order) -> tuple[Size, ...]:
    """Sizes of the axes, slowest first."""
    return tuple(shape) if order is None else tuple(shape[axis] for axis in order)


def put_back(order: Sequence[int]) -> tuple[int, ...]:
    """The order that undoes another."""
    return tuple(order.index(axis) for axis in range(len(order)))


def strides_in(shape: Sequence[Size], order: Sequence[int]) -> tuple[Size, ...]:
    """Strides of a dense tensor whose axes lie in memory in an order, in elements."""
    return tuple(
        product(shape[inner] for inner in order[order.index(axis) + 1 :]) for axis in range(len(order))
    )


def contiguous(shape: Sequence[Size]) -> View:
    """Row-major view of a whole buffer."""
    return merged(View((Axis(product(shape), ONE),)))


def strided(shape: Sequence[Size], strides: Sequence[Size], offset: Size = ZERO) -> View:
    """View with given strides, in elements."""
    axes = tuple(Axis(n, s) for n, s in zip(shape, strides, strict=True))
    return merged(View(axes, offset))


def distinct(*views: View) -> Size:
    """How many different elements are found, by the axes that are not repeated."""
    return product([axis.size for view in views for axis in view.axes if not axis.stride.is_zero])


def merged(view: View) -> View:
    """The same view with as few axes as possible."""
    if view.is_merged:
        return view
    axes: list[Axis] = []
    for axis in view.axes:
        if axis.size.is_one:
            continue
        if axes and axes[-1].stride == axis.stride * axis.size:
            axes[-1] = Axis(axes[-1].size * axis.size, axis.stride)
        else:
            axes.append(axis)
    return View(tuple(axes), view.offset, is_merged=True)


def runs(view: View, shape: Sequence[Size]) -> Runs:
    """Split the axes so that every logical axis of ``shape`` is a run of them. Raises ``NotAView``."""
    found: list[tuple[Axis, ...]] = []
    rest = list(merged(view).axes)
    for size in reversed(shape):
        run: list[Axis] = []
        left = size
        while not left.is_one:
            if not rest:
                raise NotAView
            axis = rest.pop()
            if axis.size.divides(left):
                run.insert(0, axis)
                left = left // axis.size
            elif left.divides(axis.size):
                run.insert(0, Axis(left, axis.stride))
                rest.append(Axis(axis.size // left, axis.stride * left))
                left = ONE
            else:
                raise NotAView
        found.insert(0, tuple(run))
    return tuple(found)


def joined(parts: Runs, offset: Size) -> View:
    """One view out of runs."""
    return merged(View(tuple(axis for run in parts for axis in run), offset))


def permuted(view: View, shape: Sequence[Size], order: Sequence[int]) -> View:
    """View of the tensor with its logical axes in another order."""
    parts = runs(view, shape)
    return joined(tuple(parts[axis] for axis in order), view.offset)


def expanded(view: View, shape: Sequence[Size], wider: Sequence[Size]) -> View:
    """Broadcast to ``wider`` by PyTorch's rules: new axes in front, axes of size one repeated."""
    parts = runs(view, shape)
    missing = len(wider) - len(shape)
    grown: list[tuple[Axis, ...]] = []
    for position, size in enumerate(wider):
        own = shape[position - missing] if position >= missing else ONE
        if own == size and position >= missing:
            grown.append(parts[position - missing])
        elif own.is_one:
            grown.append((Axis(size, ZERO),))
        else:
            grown.append(_same_length(parts[position - missing], size))
    return joined(tuple(grown), view.offset)


def _same_length(run: tuple[Axis, ...], size: Size) -> tuple[Axis, ...]:
    """An axis whose size is spelt in another way; the reference accepts only inputs where both agree."""
    axes = merged(View(run)).axes
    if len(axes) != 1:
        raise NotAView
    return (Axis(size, axes[0].stride),)


def sliced(view: View, shape: Sequence[Size], axis: int, start: Size, step: Size, size: Size) -> View:
    """Every ``step``-th index of one logical axis from ``start``, ``size`` of them; negative steps flip."""
    parts = list(runs(view, shape))
    cut = _cut(merged(View(parts[axis])).axes, start, step, size)
    parts[axis] = cut.axes
    return joined(tuple(parts), view.offset + cut.offset)


def _cut(run: tuple[Axis, ...], start: Size, step: Size, size: Size) -> View:
    """The same of a run: several axes of which the innermost stay whole, or a part of one of them."""
    if len(run) < 2:
        stride = run[0].stride if run else ZERO
        return View((Axis(size, stride * step),), start * stride)
    *outer, inner = run
    if step.is_one and inner.size.divides(size) and inner.size.divides(start):
        rest = _cut(tuple(outer), start // inner.size, ONE, size // inner.size)
        return View((*rest.axes, inner), rest.offset)
    known = [one.number for one in (start, step, size, inner.size)]
    match known:
        case [int() as first, int() as by, int() as count, int() as whole]:
            turns, place = divmod(first, whole)
            if 0 <= place + (count - 1) * by < whole:
                rest = _cut(tuple(outer), number(turns), ONE, ONE)
                return View(
                    (*rest.axes, Axis(size, inner.stride * step)), rest.offset + number(place) * inner.stride
                )
    raise NotAView


def split(view: View, rows: Size, columns: Size) -> tuple[View, View]:
    """The part that depends on the row (with the offset) and the part that depends on the column."""
    row_axes, column_axes = runs(view, (rows, columns))
    return joined((row_axes,), view.offset), joined((column_axes,), ZERO)
