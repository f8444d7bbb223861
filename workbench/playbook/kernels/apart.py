"""Kernels without rows in which a thread has all elements of an axis of few: coordinates, parts of a number.

Owns which axis that is and what the kernel becomes: the same results as stores of their own, one for each
element of the axis, over a line that lacks it. What the elements are made of is read and computed once then.
Never writes text: flat_kernel.py writes these stores as any others, whole_rows.py those side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from workbench.playbook.ir.expr import (
    Apply,
    Expr,
    Index,
    Load,
    Pool,
    Reduction,
    leaves,
    loads_below,
    unguarded,
    walk,
    walk_all,
)
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.sizes import ZERO, Size, number, product
from workbench.playbook.ir.views import NotAView, View, joined, merged, runs
from workbench.playbook.kernels.shared_elements import shared_elements

MOST_BESIDE, MOST_LAST = 8, 4
"""Elements of such an axis: with neighbours behind it, and where its own elements are the neighbours."""
_MOST_READ = 32
"""Elements that a thread reads for one place of the line: each is in a register."""


@dataclass(frozen=True)
class Apart:
    """A kernel and how many elements of which axis each of its threads has."""

    kernel: Kernel
    few: int
    inner: Size
    """Neighbours behind the axis."""

    @property
    def in_rows(self) -> bool:
        """True where a thread's elements lie side by side."""
        return self.inner.is_one


def apart_of(pool: Pool, kernel: Kernel) -> Apart | None:
    """The kernel with the elements of an axis together in a thread; None where that saves nothing."""
    stores = kernel.stores
    if kernel.tail or kernel.ahead or any(store.level != "flat" for store in stores):
        return None
    roots = [store.value for store in stores]
    if any(isinstance(leaf, Reduction) for root in roots for leaf in leaves(root)):
        return None
    for few, inner in _axes(roots, stores[0].columns):
        cut = _Cut(pool, few, inner, stores[0].columns // (number(few) * inner))
        with suppress(NotAView):
            parts = [[cut.store(store, at) for store in stores] for at in range(few)]
            if _saves(cut, roots, parts):
                return Apart(Kernel([store for part in parts for store in part]), few, inner)
    return None


def _axes(roots: Iterable[Expr], count: Size) -> Iterator[tuple[int, Size]]:
    """Axes of few elements in what the kernel reads and counts: how many, and the neighbours behind."""
    found: dict[tuple[int, Size], None] = {}
    for expr in walk_all(list(roots)):
        if not isinstance(expr, Load | Index):
            continue
        axes = expr.view.axes
        for at, axis in enumerate(axes):
            inner, few = product(one.size for one in axes[at + 1 :]), axis.size.number
            most = MOST_LAST if inner.is_one else MOST_BESIDE
            if few is not None and 2 <= few <= most and (number(few) * inner).divides(count):
                found[few, inner] = None
    yield from sorted(found, key=lambda one: -one[0])


@dataclass(frozen=True)
class _Cut:
    """A line of indices as (``outer``, ``few``, ``inner``)."""

    pool: Pool
    few: int
    inner: Size
    outer: Size

    def store(self, store: Store, at: int) -> Store:
        """A result at one element of the axis. Raises ``NotAView``."""
        value, view = self.value(store.value, at), self._taken(store.view, at)
        return replace(store, value=value, view=view, columns=self.outer * self.inner)

    def value(self, expr: Expr, at: int) -> Expr:
        """An expression there. Raises ``NotAView``."""
        return self.pool.through(expr, lambda view: self._taken(view, at))

    def _taken(self, view: View, at: int) -> View:
        before, axis, behind = runs(view, (self.outer, number(self.few), self.inner))
        run = merged(View(axis)).axes
        if len(run) > 1:
            raise NotAView
        step = run[0].stride if run else ZERO
        return joined((before, behind), view.offset + number(at) * step)


def _saves(cut: _Cut, roots: list[Expr], parts: list[list[Store]]) -> bool:
    """True where elements of the axis read the same again, or choose what they are by where they lie.

    What all of them read alike, as a factor a row is or a byte of two numbers, a vector of neighbours reads
    once too.
    """
    own = set[int]()
    halves = [one.load for one in shared_elements(roots, cut.few) if one.place is None]
    alike = {cut.value(load, 0).serial for load in halves}
    always = {expr.serial for expr in unguarded(*roots)}
    for load in loads_below(roots):
        seen = {cut.value(load, at).serial for at in range(cut.few)}
        if len(seen) > 1:
            own |= seen
        elif load.serial in always:
            alike |= seen
    each = [{load.serial for store in part for load in _loads(store.value)} for part in parts]
    apart = [found - (alike - own) for found in each]
    together = set[int]().union(*apart)
    if not 0 < len(together) <= _MOST_READ:
        return False
    chosen = any(_chooses(root) for root in roots)
    decided = chosen and not any(_chooses(store.value) for part in parts for store in part)
    return (decided and cut.inner.is_one) or 2 * len(together) <= sum(len(found) for found in apart)


def _loads(root: Expr) -> Iterator[Load]:
    return (leaf for leaf in leaves(root) if isinstance(leaf, Load))


def _chooses(root: Expr) -> bool:
    """True where an element is one of several by its place."""
    return any(isinstance(expr, Apply) and expr.op == "select" for expr in walk(root))
