"""Windows that slide over a tensor: which element of it every place of a window is.

Owns the record of them, so that a kernel may read once what neighbouring windows share. Writes no text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.playbook.ir.expr import Expr, walk, walk_all
from workbench.playbook.ir.sizes import ZERO, Size, product
from workbench.playbook.ir.views import NotAView, View, in_order, joined, merged, permuted, runs

if TYPE_CHECKING:
    from workbench.playbook.ir.expr import Pool
    from workbench.playbook.ir.program import Kernel


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
    """Windows over neighbouring axes of a tensor: the last ones, or in channels-last images those before."""

    source: Expr
    """The tensor, over the linear index of ``shape``."""
    shape: tuple[Size, ...]
    windows: tuple[Window, ...]
    fill: Expr
    """What lies outside."""
    places: Mapping[int, tuple[int, ...]]
    """Elements of a window, by the serial of their expression: which one along each axis."""
    behind: int = 0
    """Axes behind those of the windows, such as the channels of channels-last images."""

    @property
    def _first(self) -> int:
        """The first axis of the windows."""
        return len(self.shape) - self.behind - len(self.windows)

    @property
    def seen(self) -> tuple[Size, ...]:
        """Sizes of the tensor along the windows' axes."""
        return self.shape[self._first : len(self.shape) - self.behind]

    @property
    def images(self) -> Size:
        """Planes of results that lie one behind the other: all axes in front of the windows'."""
        outs = tuple(window.out for window in self.windows[:-2])
        return product((*self.shape[: self._first], *outs))

    @property
    def beside(self) -> Size:
        """Planes that lie side by side, element by element: all axes behind the windows'."""
        return product(self.shape[len(self.shape) - self.behind :])

    @property
    def planes(self) -> Size:
        """All planes of results."""
        return self.images * self.beside

    @property
    def _shape_of_results(self) -> tuple[Size, ...]:
        outs = (window.out for window in self.windows)
        return (*self.shape[: self._first], *outs, *self.shape[len(self.shape) - self.behind :])

    @property
    def results(self) -> Size:
        """How many there are."""
        return product(self._shape_of_results)

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
        parts = self.of_planes(view)
        if parts is None:
            return None
        outer, inner = parts
        return joined((outer.axes, inner.axes), outer.offset)

    def of_planes(self, view: View) -> tuple[View, View] | None:
        """The same by the image (with the offset), and by the plane of those side by side."""
        try:
            outer, within, inner = runs(view, (self.images, self.down.out * self.along.out, self.beside))
        except NotAView:
            return None
        if not View(within).is_constant:
            return None
        return joined((outer,), view.offset), merged(View(inner))

    def steps(self, view: View) -> tuple[View, tuple[Size, ...], View] | None:
        """Where a view of the tensor finds the beginning of each image, how far apart elements lie along the
        axes of the windows, and where planes lie beside one another; None where an axis has no stride of its
        own."""
        try:
            outer, *along, inner = runs(view, (product(self.shape[: self._first]), *self.seen, self.beside))
        except NotAView:
            return None
        axes = [merged(View(run)).axes for run in along]
        if any(len(run) > 1 for run in axes):
            return None
        strides = tuple(run[0].stride if run else ZERO for run in axes)
        return joined((outer,), view.offset), strides, merged(View(inner))

    def laid(self, pool: Pool, root: Expr, shape: Sequence[Size], order: Sequence[int]) -> Stencil | None:
        """The same windows for ``root`` with the axes of its ``shape`` in another order.

        None where it does not see through them, and where other axes would lie between theirs.
        """
        parts = [part for part in walk(root) if part.serial in self.places]
        if not parts or tuple(shape) != self._shape_of_results:
            return None
        last = self._first + len(self.windows)
        axes = [axis for axis in order if self._first <= axis < last]
        begin = order.index(axes[0])
        if list(order[begin : begin + len(axes)]) != axes:
            return None
        turned = [axis - self._first for axis in axes]
        places = {}
        try:
            source = pool.through(self.source, lambda view: permuted(view, self.shape, order))
            for part in parts:
                moved = pool.through(part, lambda view: permuted(view, shape, order))
                places[moved.serial] = tuple(self.places[part.serial][axis] for axis in turned)
        except NotAView:
            return None
        windows = tuple(self.windows[axis] for axis in turned)
        behind = len(order) - begin - len(axes)
        return Stencil(source, in_order(self.shape, tuple(order)), windows, self.fill, places, behind)


def stencils_of(kernel: Kernel, known: tuple[Stencil, ...]) -> tuple[Stencil, ...]:
    """The windows of a kernel whose results below one another share rows; none where it has others too.

    All are over results of one shape, and all have the same planes side by side.
    """
    if kernel.stores[0].level != "flat":
        return ()
    used = {part.serial for part in walk_all([store.value for store in kernel.stores])}
    found: tuple[Stencil, ...] = ()
    for one in known:
        if mine := used & one.places.keys():
            found += (one,)
            used -= mine
    if any(not _shares_rows(one) or one.results != kernel.stores[0].columns for one in found):
        return ()
    shapes = {(one.down.out, one.along.out, one.beside) for one in found}
    return found if len(shapes) == 1 else ()


def strips_of(kernel: Kernel, known: tuple[Stencil, ...]) -> tuple[Stencil, ...]:
    """Those of them whose neighbours are neighbours of a row; none where planes lie side by side."""
    found = stencils_of(kernel, known)
    return found if all(one.beside.is_one for one in found) else ()


def _shares_rows(stencil: Stencil) -> bool:
    return len(stencil.windows) > 1 and stencil.down.extent > stencil.down.stride


def seen_of(window: Window, results: int) -> int:
    """Elements that so many neighbouring results read of one axis."""
    return (results - 1) * window.stride + window.extent
