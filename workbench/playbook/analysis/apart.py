"""Kernels without rows in which a thread has all elements of an axis of few: coordinates, parts of a number.

Owns which axis that is and what the kernel becomes: the same results as stores of their own, one for each
element of the axis, over a line that lacks it. What the elements are made of is read and computed once then.
Never writes text: flat_kernel.py writes these stores as any others, whole_rows.py those side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from workbench.model import Sym
from workbench.playbook.analysis.shared_elements import shared_elements
from workbench.playbook.ir.expr import (
    Apply,
    Const,
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
from workbench.playbook.ir.views import NotAView, Runs, View, joined, merged, runs

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


def apart_of(pool: Pool, kernel: Kernel, pieces: bool = False) -> Apart | None:
    """The kernel with the elements of an axis together in a thread; None where that saves nothing.

    ``pieces`` of a concatenation, all of one length, are elements of an axis too.
    """
    stores = kernel.stores
    if kernel.tail or kernel.ahead or any(store.level != "flat" for store in stores):
        return None
    roots = [store.value for store in stores]
    if any(isinstance(leaf, Reduction) for root in roots for leaf in leaves(root)):
        return None
    axes = dict.fromkeys(_axes(roots, stores[0].columns))
    if pieces:
        axes.update(dict.fromkeys(_pieces(pool, roots, stores[0].columns)))
    for few, inner in axes:
        cut = _Cut(pool, few, inner, stores[0].columns // (number(few) * inner))
        with suppress(NotAView):
            parts = [cut.stores(stores, at) for at in range(few)]
            if _saves(cut, roots, parts):
                return Apart(Kernel([store for part in parts for store in part]), few, inner)
    return None


def gathered(pool: Pool, kernel: Kernel, most: int = MOST_BESIDE) -> Kernel:
    """The kernel with axis after axis together in a thread, as long as each saves and results are few."""
    while (apart := apart_of(pool, kernel, pieces=True)) is not None and len(apart.kernel.stores) <= most:
        kernel = apart.kernel
    return kernel


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


def _pieces(pool: Pool, roots: Iterable[Expr], count: Size) -> Iterator[tuple[int, Size]]:
    """Likewise pieces of concatenations: how many, and the neighbours of one."""
    for expr in walk_all(list(roots)):
        match expr:
            case Apply(op="lt", args=(Index(view=View(axes=axes)), Const(value=int() | str() as end))):
                moving = [at for at, axis in enumerate(axes) if not axis.stride.is_zero]
                piece = pool.sizes.read(Sym(sym=str(end)))
                if len(moving) != 1 or piece.is_zero or not piece.divides(axes[moving[0]].size):
                    continue
                few = (axes[moving[0]].size // piece).number
                inner = piece * product(axis.size for axis in axes[moving[0] + 1 :])
                if few is not None and 2 <= few <= MOST_BESIDE and (number(few) * inner).divides(count):
                    yield few, inner


@dataclass(frozen=True)
class _Cut:
    """A line of indices as (``outer``, ``few``, ``inner``)."""

    pool: Pool
    few: int
    inner: Size
    outer: Size
    _known: dict[tuple[View, int], View] = field(default_factory=dict)
    _runs: dict[View, Runs] = field(default_factory=dict)
    _values: dict[tuple[int, int], Expr] = field(default_factory=dict)

    def stores(self, stores: Sequence[Store], at: int) -> list[Store]:
        """Results at one element of the axis. Raises ``NotAView``."""
        values = self.pool.all_through([store.value for store in stores], lambda view: self._taken(view, at))
        columns = self.outer * self.inner
        return [
            replace(store, value=value, view=self._taken(store.view, at), columns=columns)
            for store, value in zip(stores, values, strict=True)
        ]

    def value(self, expr: Expr, at: int) -> Expr:
        """An expression there. Raises ``NotAView``."""
        if (expr.serial, at) not in self._values:
            self._values[expr.serial, at] = self.pool.through(expr, lambda view: self._taken(view, at))
        return self._values[expr.serial, at]

    def _taken(self, view: View, at: int) -> View:
        if (view, at) not in self._known:
            self._known[view, at] = self._cut(view, at)
        return self._known[view, at]

    def _cut(self, view: View, at: int) -> View:
        if view not in self._runs:
            self._runs[view] = runs(view, (self.outer, number(self.few), self.inner))
        before, axis, behind = self._runs[view]
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
