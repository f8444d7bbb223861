"""Sets of places in a matrix that are made of whole diagonals, and how many places they hold. Pure.

A causal mask, a sliding window, what is above or below a diagonal: whether place (row, column) is in depends
on column - row alone. Owns functions of that difference and sums over the places, without a matrix at hand.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Dims = tuple[int, int]
"""Rows and columns."""


@dataclass(frozen=True)
class Diagonals(Generic[T]):
    """What holds on each diagonal: ``values[k]`` from ``starts[k - 1]`` on, ``values[0]`` before them all."""

    values: tuple[T, ...]
    starts: tuple[int, ...] = ()

    def at(self, diagonal: int) -> T:
        """On the diagonal column - row."""
        return self.values[bisect.bisect_right(self.starts, diagonal)]

    @property
    def uniform(self) -> bool:
        """The same everywhere."""
        return len(self.values) == 1

    def shifted(self, by: int) -> Diagonals[T]:
        """What held on diagonal d holds on d + by."""
        return Diagonals(self.values, tuple(start + by for start in self.starts))

    def transposed(self) -> Diagonals[T]:
        """Rows become columns."""
        return Diagonals(self.values[::-1], tuple(1 - start for start in reversed(self.starts)))

    def within(self, dims: Dims) -> Diagonals[T]:
        """Without what a matrix of these dimensions has no place for, and without steps between equals."""
        rows, columns = dims
        starts = [start for start in self.starts if -rows + 1 < start <= columns - 1]
        return _joined([self.at(d) for d in (-rows + 1, *starts)], starts)


def joint(combine: Callable[..., T], *parts: Diagonals[Any]) -> Diagonals[T]:
    """``combine`` of what the parts hold, diagonal by diagonal."""
    starts = sorted({start for part in parts for start in part.starts})
    before = starts[0] - 1 if starts else 0
    return _joined([combine(*(part.at(d) for part in parts)) for d in (before, *starts)], starts)


def _joined(values: list[T], starts: list[int]) -> Diagonals[T]:
    """``values`` of the places before, and from each start on; equal neighbours are one."""
    kept, begins = [values[0]], []
    for value, start in zip(values[1:], starts, strict=True):
        if value != kept[-1] or type(value) is not type(kept[-1]):
            kept.append(value)
            begins.append(start)
    return Diagonals(tuple(kept), tuple(begins))


@lru_cache(maxsize=16)
def in_rows(chosen: Diagonals[bool], dims: Dims) -> tuple[int, ...]:
    """How many places of each row are chosen."""
    rows, columns = dims
    if chosen.uniform:
        return (columns * chosen.values[0],) * rows
    edges = pairwise((-rows - columns, *chosen.starts, rows + columns))
    runs = [edge for edge, value in zip(edges, chosen.values, strict=True) if value]
    return tuple(sum(max(0, min(columns, row + b) - max(0, row + a)) for a, b in runs) for row in range(rows))


def in_columns(chosen: Diagonals[bool], dims: Dims) -> tuple[int, ...]:
    """How many places of each column are chosen."""
    return in_rows(chosen.transposed(), (dims[1], dims[0]))


def rows_met(chosen: Diagonals[bool], dims: Dims) -> float:
    """Share of the rows that have a chosen place."""
    if chosen.uniform or not dims[0]:
        return float(chosen.values[0])
    return sum(map(bool, in_rows(chosen, dims))) / dims[0]


def columns_met(chosen: Diagonals[bool], dims: Dims) -> float:
    """Share of the columns that have one."""
    return rows_met(chosen.transposed(), (dims[1], dims[0]))


def share(chosen: Diagonals[bool], dims: Dims) -> float:
    """Chosen places over all of them, exactly counted."""
    if chosen.uniform:
        return float(chosen.values[0])
    return sum(in_rows(chosen, dims)) / max(dims[0] * dims[1], 1)
