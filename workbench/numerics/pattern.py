"""Where and how an output is wrong, in words a person can act on.

Owns the phrases. What is wrong was decided by compare.py; this only recognises shapes in it.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from workbench.numerics.digits import apart

NEARLY = 1e-3
"""Relative closeness at which a wrong value still counts as a recognised other value."""


def describe(got: Tensor, expected: Tensor, wrong: Tensor) -> str:
    """Describe the wrong elements: what they hold, then where they lie. All tensors share a shape."""
    what = _what(got.to(torch.float64), expected.to(torch.float64), wrong)
    where = _where(wrong)
    return f"{what} in {where}" if what and where != "all elements" else what or where


# ------------------------------------------------------------------------------------ what they hold


def _what(got: Tensor, expected: Tensor, wrong: Tensor) -> str:
    values, wanted = got[wrong], expected[wrong]
    if bool(values.isnan().all()):
        return "NaN"
    if bool(values.isinf().all()):
        return "infinity"
    if bool((values == 0).all()):
        return "zeros"
    if bool((wanted.isnan() & ~values.isnan()).all()):
        return "a number where NaN belongs"
    rearranged = _rearranged(got, expected) if bool(wrong.sum() * 4 > wrong.numel()) else ""
    return rearranged or _scaled(values, wanted) or ("NaN among them" if bool(values.isnan().any()) else "")


def _rearranged(got: Tensor, expected: Tensor) -> str:
    if expected.dim() >= 2:
        rows, columns = expected.shape[-2:]
        swapped = got.reshape(*expected.shape[:-2], columns, rows).transpose(-1, -2)
        if rows > 1 and columns > 1 and _close(swapped, expected):
            return "the transposed result"
    if expected.dim() >= 1 and expected.shape[0] > 1 and _close(got, expected[:1].expand(expected.shape)):
        return "the first row, repeated"
    if expected.dim() >= 1 and expected.shape[-1] > 2:
        for shift in (-1, 1):
            if _close(got.roll(shift, -1)[..., 1:-1], expected[..., 1:-1]):
                return "the result shifted by one element"
    return ""


def _close(left: Tensor, right: Tensor) -> bool:
    return bool(torch.isclose(left, right, rtol=NEARLY, atol=1e-12, equal_nan=True).all())


def _scaled(values: Tensor, wanted: Tensor) -> str:
    usable = torch.isfinite(values) & torch.isfinite(wanted) & (wanted != 0)
    if int(usable.sum()) < 2 or not bool(usable.all()):
        return ""
    factors = values / wanted
    factor = float(factors.median())
    if bool(((factors - factor).abs() <= NEARLY * max(abs(factor), 1e-12)).all()):
        return _times(factor, float((factors - factor).abs().max()))
    offsets = values - wanted
    offset = float(offsets.median())
    spread = float((offsets - offset).abs().max())
    if spread <= NEARLY * abs(offset):
        return f"the right value {'plus' if offset > 0 else 'minus'} {abs(offset):.4g}"
    return ""


def _times(factor: float, spread: float) -> str:
    """A factor that four digits do not tell from 1 is no factor where elements differ by more."""
    if f"{factor:.4g}" != "1":
        return f"{factor:.4g} times the right value"
    off = abs(factor - 1)
    if off <= spread:
        return f"within {off + spread:.2g} of the right value, relative to it"
    return f"off by a factor of {apart(factor, 1.0, 4)}"


# ------------------------------------------------------------------------------------ where they lie


def _where(wrong: Tensor) -> str:
    if bool(wrong.all()):
        return "all elements"
    if int(wrong.sum()) == 1:
        return f"element {tuple(wrong.nonzero()[0].tolist())}"
    columns = wrong.shape[-1]
    grid = wrong.reshape(-1, columns)
    by_row, by_column = grid.any(dim=1), grid.any(dim=0)
    if grid.shape[0] > 1 and bool((grid == by_column).all()):
        return _run(by_column, "column")
    if columns > 1 and grid.shape[0] > 1 and bool((grid == by_row[:, None]).all()):
        return _run(by_row, "row")
    if grid.shape[0] == 1:
        return _run(grid[0], "element")
    if _is_tail(wrong.reshape(-1)):
        return f"the last {int(wrong.sum())} elements"
    return _scattered(grid, by_row, by_column)


def _run(hit: Tensor, noun: str) -> str:
    """Name a set of positions along one axis: a tail, a head, a stride, a range or a few."""
    positions = hit.nonzero().reshape(-1).tolist()
    count, size = len(positions), hit.numel()
    first, last = positions[0], positions[-1]
    if count == 1:
        return f"the last {noun}" if last == size - 1 and size > 1 else f"{noun} {first}"
    if last - first + 1 == count:
        if last == size - 1:
            return f"the last {count} {noun}s, from {noun} {first} on"
        return f"the first {count} {noun}s" if first == 0 else f"{noun}s {first} to {last}"
    step = positions[1] - first
    if count > 2 and step > 1 and all(b - a == step for a, b in pairwise(positions)):
        return f"every {_ordinal(step)} {noun}, from {first}"
    if count <= 4:
        return f"{noun}s {', '.join(map(str, positions))}"
    return f"{count} of {size} {noun}s"


def _is_tail(flat: Tensor) -> bool:
    count = int(flat.sum())
    return bool(flat[flat.numel() - count :].all())


def _scattered(grid: Tensor, by_row: Tensor, by_column: Tensor) -> str:
    total = f"{int(grid.sum())} elements"
    rows, columns = int(by_row.sum()), int(by_column.sum())
    if columns < grid.shape[1] and columns <= grid.shape[1] // 2:
        return f"{total} in {_run(by_column, 'column')}"
    if rows < grid.shape[0] and rows <= grid.shape[0] // 2:
        return f"{total} in {_run(by_row, 'row')}"
    return f"{int(grid.sum())} of {grid.numel()} elements, scattered"


def _ordinal(number: int) -> str:
    if 10 <= number % 100 <= 20:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
