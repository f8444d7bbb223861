"""Which loads of a pointwise kernel run across its result: their neighbours lie along another axis.

Owns how such a kernel's line of indices is cut into axes, two of which make tiles. Writes no text.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.model import DTYPE_BYTES, DType
from workbench.playbook.ir.expr import Load, whichever_is_chosen
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import ZERO, Size
from workbench.playbook.ir.views import NotAView, View, distinct, merged, runs
from workbench.playbook.text.indexing import is_unit

LEAST_TILED = 16
"""Indices of either axis below which a tile would be mostly empty."""
MOST_STATIC_BYTES = 48 * 1024
"""Shared memory of a block that needs no asking for."""


@dataclass(frozen=True)
class Turn:
    """A line of indices as axes, of which ``across`` is the one along which ``loads`` have their neighbours.

    The result has its own along the last.
    """

    axes: tuple[Size, ...]
    across: int
    loads: tuple[Load, ...]

    @property
    def down(self) -> Size:
        """Indices along the loads' neighbours."""
        return self.axes[self.across]

    @property
    def along(self) -> Size:
        """Indices along the result's neighbours."""
        return self.axes[-1]

    def parts(self, view: View) -> tuple[View, ...] | None:
        """How a view goes along each axis; None where it cuts the line otherwise."""
        try:
            return tuple(merged(View(run)) for run in runs(view, self.axes))
        except NotAView:
            return None

    def strides(self, view: View) -> tuple[Size, ...] | None:
        """What one step of each axis moves in a view; None where it is not the same for all steps."""
        parts = self.parts(view)
        if parts is None or any(len(part.axes) > 1 for part in parts):
            return None
        return tuple(part.axes[0].stride if part.axes else ZERO for part in parts)


def turn_of(kernel: Kernel) -> Turn | None:
    """How a kernel's tiles lie; None where every load has its neighbours where the result has them."""
    if kernel.stores[0].level != "flat" or not all(is_unit(store.view) for store in kernel.stores):
        return None
    loads = plain_loads(kernel)
    crossing = [load for load in loads if _crosses(load.view)]
    for first in sorted(crossing, key=lambda one: (-len(one.view.axes), -distinct(one.view).probes[0])):
        axes = merged(first.view).axes
        across = max(i for i, axis in enumerate(axes[:-1]) if axis.stride.is_one)
        turn = Turn(tuple(axis.size for axis in axes), across, ())
        same = tuple(load for load in crossing if _is_turned(turn, load))
        return Turn(turn.axes, across, same)
    return None


def plain_loads(kernel: Kernel) -> list[Load]:
    """What every element needs, whichever way a choice goes."""
    found = whichever_is_chosen(*(store.value for store in kernel.stores))
    loads = [found[serial] for serial in sorted(found)]
    return [leaf for leaf in loads if isinstance(leaf, Load) and not leaf.lookups]


def _crosses(view: View) -> bool:
    axes = merged(view).axes
    if len(axes) < 2 or axes[-1].stride.is_one or axes[-1].stride.is_zero:
        return False
    return any(axis.stride.is_one for axis in axes[:-1])


def _is_turned(turn: Turn, load: Load) -> bool:
    """Neighbours across are neighbours in memory, or the same element: a scale that sixteen of them share."""
    parts = turn.parts(load.view)
    if parts is None or len(parts[-1].axes) != 1 or parts[-1].axes[0].stride.is_zero:
        return False
    steps = [axis.stride for axis in parts[turn.across].axes if not axis.stride.is_zero]
    return bool(steps) and steps[-1].is_one and not parts[-1].axes[0].stride.is_one


def pitch(tile: int, dtype: DType) -> int:
    """Elements from row to row of a tile: an odd number of words, so that columns spread over banks."""
    return tile + max(1, 4 // DTYPE_BYTES[dtype])


def tiled_loads(turn: Turn, tile: int) -> tuple[Load, ...]:
    """The loads that have room in shared memory; the rest is read as it lies."""
    kept: list[Load] = []
    left = MOST_STATIC_BYTES
    for load in turn.loads:
        left -= tile * pitch(tile, load.dtype) * max(4, DTYPE_BYTES[load.dtype])
        if left >= 0:
            kept.append(load)
    return tuple(kept)
