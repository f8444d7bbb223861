"""Rows of a convolution's channels, one for each place, that a kernel behind it reduces: a softmax, a norm.

Owns which kernels those are. Writes no text; channels_kernel.py does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from workbench.playbook.analysis.pairs import steps_along
from workbench.playbook.ir.expr import Expr, Load, Reduction, unguarded, walk, walk_all
from workbench.playbook.ir.program import Convolution, Kernel
from workbench.playbook.ir.sizes import product
from workbench.playbook.ir.views import View, strides_in


def with_channels(made: Convolution, kernel: Kernel) -> Convolution | None:
    """The convolution with values to store that need all channels of a place; None where they need others."""
    store = kernel.stores[0]
    if not made.groups.is_one or any(one.level == "flat" for one in kernel.stores):
        return None
    if store.columns != made.made or store.rows * store.columns != product(made.shape):
        return None
    for root in _roots(kernel):
        always = {expr.serial for expr in unguarded(root)}
        loads = [part for part in walk(root) if isinstance(part, Load) and part.buffer == made.buffer]
        if any(load.lookups or load.serial not in always for load in loads):
            return None
        if not all(_is_own_channel(made, load.view) for load in loads):
            return None
    return replace(made, stores=tuple(kernel.stores), across_channels=True)


def _roots(kernel: Kernel) -> Iterator[Expr]:
    """Values over (rows, columns): what is stored, and what is reduced."""
    values = [store.value for store in kernel.stores]
    yield from values
    yield from (expr.body for expr in walk_all(values, into_reductions=True) if isinstance(expr, Reduction))


def _is_own_channel(made: Convolution, view: View) -> bool:
    """True for a view that finds, at a place and a channel, that result."""
    batch, channels, *sides = strides_in(made.shape, range(len(made.shape)))
    wanted = (batch, *sides, channels)
    sizes = (made.batch, *(side.made for side in made.sides), made.made)
    found = steps_along(sizes, view)
    if found is None or not view.offset.is_zero:
        return False
    return all(step == one or size.is_one for step, one, size in zip(found, wanted, sizes, strict=True))
