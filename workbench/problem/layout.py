"""How a tensor lies in memory: its axes from the slowest to the fastest, and gaps between its elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.model import Dim, Layout, Problem, TensorMeta, size_of

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


def unlike_declared(problem: Problem, metas: Mapping[str, TensorMeta]) -> tuple[Layout, ...]:
    """The layouts of tensors that lie otherwise than the problem's: those of its plain cases none do."""
    sizes = {
        dim: size
        for spec in problem.tensors
        for dim, size in zip(spec.dims, metas[spec.name].shape, strict=True)
        if isinstance(dim, str)
    }
    found = []
    for spec in problem.tensors:
        meta = metas[spec.name]
        if spec.strides is None:
            as_declared = meta.is_contiguous
        else:
            wanted = [size_of(dim, sizes) for dim in spec.strides]
            pairs = zip(meta.shape, meta.strides, wanted, strict=True)
            as_declared = all(size == 1 or mine == theirs for size, mine, theirs in pairs)
        found += [] if as_declared else [layout_of(spec.name, meta)]
    return tuple(found)


def layout_of(tensor: str, meta: TensorMeta) -> Layout:
    """Its axes in order, and where they leave gaps or overlap."""
    long = [axis for axis, size in enumerate(meta.shape) if size != 1]
    order = sorted(long, key=lambda axis: (-meta.strides[axis], axis))
    gaps, step = [], 1
    for axis in reversed(order):
        gaps += [] if meta.strides[axis] == step else [axis]
        step = meta.strides[axis] * meta.shape[axis]
    return Layout(tensor=tensor, order=tuple(order), gaps=tuple(sorted(gaps)))
