"""How a dense tensor lies in memory: its axes from the slowest to the fastest."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.model import Dim

Order = tuple[int, ...] | None
"""Axes from slowest to fastest; None is row-major."""


def memory_order(shape: Sequence[int], strides: Sequence[int]) -> Order:
    """Axes from slowest to fastest; None for a row-major tensor, and for one with gaps or overlaps.

    An axis of size one may have any stride, and lies where its stride would have it.
    """
    if 0 in shape:
        return None
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], shape[axis] == 1, axis))
    long = [axis for axis in order if shape[axis] != 1]
    step = 1
    for axis in reversed(long):
        if strides[axis] != step:
            return None
        step *= shape[axis]
    return None if long == sorted(long) else tuple(order)


def dense_strides(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor whose axes lie in an order."""
    result, step = dict[int, int](), 1
    for axis in reversed(order):
        result[axis] = step
        step *= shape[axis]
    return tuple(result[axis] for axis in range(len(shape)))


def strides_of(shape: Sequence[int], strides: Sequence[int], dims: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """Strides of a dense tensor as products of its symbolic sizes; None where ``memory_order`` is None."""
    order = memory_order(shape, strides)
    if order is None:
        return None
    result = dict[int, Dim]()
    inner: list[str] = []
    for axis in reversed(order):
        result[axis] = "*".join(inner) if inner else 1
        inner.append(str(dims[axis]) if str(dims[axis]).isalnum() else f"({dims[axis]})")
    return tuple(result[axis] for axis in range(len(dims)))
