"""Slices of one tensor a few places apart: windows that nobody calls so.

Owns the search for them. ``x[:, 2:] - x[:, :-2]`` reads what a window of three columns covers, and results
that are neighbours share most of it, as those of a pool do. Notes them as stencils; strip_kernel.py and
walk_down_kernel.py read once what such windows share. Writes no text and changes no expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.playbook.ir.expr import Load, Pool, unguarded, walk_all
from workbench.playbook.ir.program import Buffer, Kernel
from workbench.playbook.ir.sizes import ONE, Size, number, product
from workbench.playbook.ir.stencil import Stencil, Window
from workbench.playbook.ir.views import Axis, NotAView, joined, runs

MOST_APART = 8
"""Places, along an axis, from the first of the slices to the last: a thread keeps what lies between."""


def shifted_slices(
    pool: Pool, kernel: Kernel, buffers: dict[str, Buffer], known: Sequence[Stencil]
) -> Iterator[Stencil]:
    """The windows behind loads of a kernel without rows; none in one that has windows of a pool or so."""
    windowed = {serial for one in known for serial in one.places}
    roots = [store.value for store in kernel.stores]
    parts = {part.serial for part in walk_all(roots)}
    if kernel.stores[0].level != "flat" or parts & windowed:
        return
    groups: dict[tuple[str, tuple[Axis, ...]], dict[int, Load]] = {}
    # What is read under a condition may be read for that condition's sake only.
    always = {expr.serial for expr in unguarded(*roots)}
    for leaf in walk_all(roots):
        if isinstance(leaf, Load) and not leaf.lookups and leaf.serial in always:
            groups.setdefault((leaf.buffer, leaf.view.axes), {})[leaf.serial] = leaf
    for (name, _), loads in groups.items():
        found = _stencil(pool, buffers[name], list(loads.values()), kernel.stores[0].columns)
        if found is not None:
            yield found


def _stencil(pool: Pool, buffer: Buffer, loads: list[Load], count: Size) -> Stencil | None:
    """The windows of loads that differ in where they begin; None where their planes are not a tensor's."""
    if len(loads) < 2 or len(buffer.shape) < 2 or buffer.strides is not None:
        return None
    axes = loads[0].view.axes
    if len(axes) < 2 or not axes[-1].stride.is_one or axes[-2].stride != buffer.shape[-1]:
        return None
    down, along = axes[-2].size, axes[-1].size
    places = [_place(load.view.offset, buffer.shape[-1]) for load in loads]
    if any(place is None for place in places):
        return None
    at = [place for place in places if place is not None]
    first = min(y for y, _ in at), min(x for _, x in at)
    far = max(y for y, _ in at) - first[0], max(x for _, x in at) - first[1]
    height, width = down + number(far[0]), along + number(far[1])
    if max(far) > MOST_APART or not far[0]:
        return None
    # The whole of what windows cover has to lie in the tensor, although corners of it may be nobody's.
    if not (_within(first[0], height, buffer.shape[-2]) and _within(first[1], width, buffer.shape[-1])):
        return None
    try:
        outer, _, _ = runs(loads[0].view, (count // (down * along), down, along))
    except NotAView:
        return None
    planes = product(axis.size for axis in outer)
    if planes * down * along != count:
        return None
    offset = buffer.shape[-1] * number(first[0]) + number(first[1])
    rows, columns = Axis(height, buffer.shape[-1]), Axis(width, ONE)
    view = joined((outer, (rows,), (columns,)), offset)
    source = pool.load(buffer.name, loads[0].dtype, view)
    windows = (Window(far[0] + 1, 1, 0, 1, down), Window(far[1] + 1, 1, 0, 1, along))
    found = {load.serial: (y - first[0], x - first[1]) for load, (y, x) in zip(loads, at, strict=True)}
    fill = pool.const(0.0 if "f" in source.dtype else 0, source.dtype)
    return Stencil(source, (planes, height, width), windows, fill, found)


def _place(offset: Size, width: Size) -> tuple[int, int] | None:
    """Rows and columns that an offset goes from a plane's first element; None where these are not a few."""
    for row in range(MOST_APART + 1):
        rest = (offset + -(width * number(row))).number
        if rest is not None and 0 <= rest <= MOST_APART:
            return row, rest
    return None


def _within(first: int, size: Size, whole: Size) -> bool:
    """True where ``size`` places from ``first`` on are no more than there are, whatever the sizes."""
    left = (whole + -size + number(-first)).number
    return left is not None and left >= 0
