"""Windows that slide over a tensor: which element of it every place of a window is.

Owns the record of them, so that a kernel may read once what neighbouring windows share. Writes no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.playbook.expr import Expr, walk
from workbench.playbook.sizes import ZERO, Size, product
from workbench.playbook.views import NotAView, View, joined, merged, runs, split

if TYPE_CHECKING:
    from workbench.playbook.program import Kernel


@dataclass(frozen=True)
class Window:
    """One axis: ``count`` elements ``dilation`` apart, from every ``stride``-th position."""

    count: int
    stride: int
    padding: int
    dilation: int
    out: Size
    ceil: bool = False
    """The last window may reach beyond the end, padding or not."""

    @property
    def extent(self) -> int:
        """Elements from the first to the last."""
        return (self.count - 1) * self.dilation + 1


@dataclass(frozen=True)
class Stencil:
    """Windows over the last axes of a tensor."""

    source: Expr
    """The tensor, over the linear index of ``shape``."""
    shape: tuple[Size, ...]
    windows: tuple[Window, ...]
    fill: Expr
    """What lies outside."""
    places: Mapping[int, tuple[int, ...]]
    """Elements of a window, by the serial of their expression: which one along each axis."""

    @property
    def results(self) -> tuple[Size, ...]:
        """Shape of what is made of the windows."""
        outer = self.shape[: len(self.shape) - len(self.windows)]
        return (*outer, *(window.out for window in self.windows))

    @property
    def planes(self) -> Size:
        """Planes of results: all axes but the last two."""
        return product(self.results[:-2])

    @property
    def down(self) -> Window:
        """The axis of rows."""
        return self.windows[-2]

    @property
    def along(self) -> Window:
        """The axis of neighbours."""
        return self.windows[-1]

    def of_plane(self, view: View) -> View | None:
        """What a view finds for a whole plane of results; None where it differs within one."""
        try:
            outer, inner = split(view, self.planes, product(self.results[-2:]))
        except NotAView:
            return None
        return outer if inner.is_constant else None

    def steps(self, view: View) -> tuple[View, tuple[Size, ...]] | None:
        """Where a view of the tensor finds the beginning of each of its planes, and how far apart elements
        lie along the axes of the windows; None where an axis has no stride of its own."""
        first = len(self.shape) - len(self.windows)
        try:
            outer, *along = runs(view, (product(self.shape[:first]), *self.shape[first:]))
        except NotAView:
            return None
        axes = [merged(View(run)).axes for run in along]
        if any(len(run) > 1 for run in axes):
            return None
        return joined((outer,), view.offset), tuple(run[0].stride if run else ZERO for run in axes)


def stencils_of(kernel: Kernel, known: tuple[Stencil, ...]) -> tuple[Stencil, ...]:
    """The windows of a kernel whose results below one another share rows; none where it has others too.

    All are over results of one shape.
    """
    if kernel.stores[0].level != "flat":
        return ()
    used = {part.serial for store in kernel.stores for part in walk(store.value)}
    found: tuple[Stencil, ...] = ()
    for one in known:
        if mine := used & one.places.keys():
            found += (one,)
            used -= mine
    shapes = {one.results[-2:] for one in found}
    whole = kernel.stores[0].columns
    if len(shapes) != 1 or any(product(one.results) != whole or not _shares_rows(one) for one in found):
        return ()
    return found


def _shares_rows(stencil: Stencil) -> bool:
    return len(stencil.windows) > 1 and stencil.down.extent > stencil.down.stride


def seen_of(window: Window, results: int) -> int:
    """Elements that so many neighbouring results read of one axis."""
    return (results - 1) * window.stride + window.extent
