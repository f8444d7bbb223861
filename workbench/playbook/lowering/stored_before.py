"""Values a row that lie in memory before they are needed: they are read there, and not reduced again.

Owns the rule. A result made of norms and of the norms' mean waits for the kernel that writes the norms:
to reduce each row once more along with it reads no less, and binds threads to rows. Asks for no new store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from workbench.playbook.analysis.placement import placement_of
from workbench.playbook.ir.expr import Expr, Reduction, leaves, loads_below
from workbench.playbook.lowering.grouping import Operation, read_and_written

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering


def read_where_stored(lowering: Lowering, expr: Expr) -> Expr:
    """``expr`` with loads for the reductions, or what is made of them, that a kernel before has stored."""
    if not any(isinstance(leaf, Reduction) for leaf in leaves(expr)):
        return expr
    ready = _waited_for((load.buffer for load in loads_below([expr])), lowering.operations)
    for leaf in [leaf for leaf in leaves(expr) if isinstance(leaf, Reduction)] if ready else []:
        read = _read(lowering, expr, leaf, ready)
        expr = expr if any(below is leaf for below in leaves(read)) else read
    return expr


def _read(lowering: Lowering, expr: Expr, leaf: Reduction, ready: set[str]) -> Expr:
    placement = placement_of(leaf)
    if placement is None:
        return expr
    forms: Mapping[int, Expr] = lowering.values_a_row(expr, leaf, placement)
    stored = {
        serial: form
        for serial, form in forms.items()
        if lowering.written_as(form, (leaf.rows.size,)) in ready
    }
    return lowering.read_by_row(expr, leaf, stored) if stored else expr


def _waited_for(buffers: Iterable[str], operations: Iterable[Operation]) -> set[str]:
    """Buffers that are written, step by step, for others to be there."""
    found = set(buffers)
    for operation in reversed(tuple(operations)):
        step = operation.store or operation.call
        assert step is not None
        reads, written = read_and_written(step)
        if written & found:
            found |= reads
    return found
