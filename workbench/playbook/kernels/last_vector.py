"""Lines of elements that no vector width divides: their last vector is only partly there.

Owns when a kernel without rows may have such a vector. Never writes text: memory_helpers.py has the two
functions that read and write it, flat_kernel.py calls them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.playbook.ir.expr import Apply, Expr, Index, Load, unguarded, walk
from workbench.playbook.ir.operations import is_float
from workbench.playbook.ir.program import Kernel
from workbench.playbook.schedules.schedule import Schedule
from workbench.playbook.text.indexing import repeated_row

_DIVIDING = frozenset(["div", "floordiv", "remainder", "fmod"])


def is_partly_there(kernel: Kernel, schedule: Schedule, declared: Sequence[Mapping[str, int]]) -> bool:
    """True where vectors pay although a declared line ends inside of one.

    All that is read must lie as the line does, or be a row that repeats: what is beyond the last element is
    then not read, and what is computed for it is not written. Without it a line of odd length goes in single
    elements: silu times another tensor of 4096x14336 takes 316 us so on an H100, 233 in vectors.
    """
    if schedule.stream or schedule.stream_stores or schedule.width == 1:
        return False
    count = kernel.stores[0].columns
    if all(count.at(case) % schedule.width == 0 for case in declared):
        return False
    return all(
        store.view.is_linear
        and _is_read_in_vectors(store.value)
        and all(_may_go_beyond(expr) for expr in walk(store.value))
        for store in kernel.stores
    )


def _is_read_in_vectors(root: Expr) -> bool:
    """True where nothing that lies as the line does is read in single elements, as one branch of two is: such
    a read has nothing that keeps it from going beyond the end."""
    always = {expr.serial for expr in unguarded(root)}
    return not any(
        isinstance(expr, Load) and expr.view.is_linear and expr.serial not in always for expr in walk(root)
    )


def _may_go_beyond(expr: Expr) -> bool:
    """True for what may be computed of an index beyond the last."""
    match expr:
        case Load(view=view, lookups=()):
            return view.is_linear or repeated_row(view) is not None
        case Load():
            return False
        case Apply(op=op, args=args, dtype=dtype) if op in _DIVIDING and not is_float(dtype):
            return not any(isinstance(part, Index) for arg in args for part in walk(arg))
    return True
