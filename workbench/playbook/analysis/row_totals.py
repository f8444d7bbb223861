"""Sums over all rows of what each row comes to, which the launch that computes the rows can make too.

Owns which two kernels of a program may be one; totals_kernel.py writes it. A loss is such a pair: a value a
row, and their mean.
"""

from __future__ import annotations

from workbench.playbook.analysis.placement import identity
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.ir.expr import Expr, Load, Pool, Reduction, loads_below, walk
from workbench.playbook.ir.program import (
    Convolution,
    Kernel,
    LibraryCall,
    MatrixProduct,
    Program,
    ProgramStep,
    RecurrentLayers,
    Scan,
    Scatter,
)

_JOINED = frozenset(["sum", "prod", "max", "min"])
"""Reductions whose partial result is one number."""


def with_tails(program: Program) -> list[ProgramStep]:
    """The steps; a kernel that only reduces what the rows of the one before come to is that one's tail."""
    steps: list[ProgramStep] = []
    for step in program.steps:
        last = steps[-1] if steps else None
        if isinstance(step, Kernel) and isinstance(last, Kernel) and _is_tail(program, last, step):
            steps[-1] = Kernel(last.stores, step)
        else:
            steps.append(step)
    return steps


def entering(pool: Pool, kernel: Kernel, operand: Expr) -> Expr:
    """What a row adds to a reduction of the tail, with the kernel's own values in place of their loads."""
    made = {store.buffer: store.value for store in kernel.stores}
    return pool.mapped(operand, lambda expr: made.get(expr.buffer) if isinstance(expr, Load) else None)


def _is_tail(program: Program, rows: Kernel, tail: Kernel) -> bool:
    """True where ``tail`` is a reduction over all of ``rows`` that needs nothing but one pass over them."""
    first, end = rows.stores[0], tail.stores[0]
    if rows.tail or first.rows.is_one or not end.rows.is_one or end.columns != first.rows:
        return False
    if any(store.level != "row" for store in (*rows.stores, *tail.stores)):
        return False
    passes = passes_of(RowSpace(program.pool, tail), tail, single_pass=False)
    kinds = {one.kind for step in passes for one in step.accumulators}
    return len(passes) == 1 and kinds <= _JOINED and _is_private(program, rows, tail)


def _is_private(program: Program, rows: Kernel, tail: Kernel) -> bool:
    """True where nobody but the tail's reductions sees the values a row, each at its own row."""
    whole = identity(rows.stores[0].rows)
    values = {store.buffer: store.value for store in rows.stores}
    buffers = [(program.buffers[name], value) for name, value in values.items()]
    if any(buffer.role != "made" or buffer.dtype != value.dtype for buffer, value in buffers):
        return False
    if any(store.view != whole for store in rows.stores):
        return False
    if any(output.buffer in values for output in program.outputs):
        return False
    others = [step for step in program.steps if step is not tail and step is not rows]
    if any(name in buffers_read(step) for step in others for name in values):
        return False
    loads = [load for load in loads_below(s.value for s in tail.stores) if load.buffer in values]
    inside = {load.serial for body in _bodies(tail) for load in loads_below([body])}
    apart = any(load.view != whole or load.lookups or load.serial not in inside for load in loads)
    return bool(loads) and not apart


def _bodies(kernel: Kernel) -> list[Expr]:
    return [e.body for store in kernel.stores for e in walk(store.value) if isinstance(e, Reduction)]


def buffers_read(step: ProgramStep) -> set[str]:
    """Buffers that a step reads."""
    match step:
        case Kernel():
            return {load.buffer for load in loads_below(store.value for store in step.all_stores)}
        case Scan():
            return {load.buffer for load in loads_below(step.values)}
        case Scatter():
            return step.read
        case LibraryCall():
            return step.read
        case RecurrentLayers():
            return set(step.read)
        case Convolution():
            loads = loads_below(store.value for store in step.stores)
            return {step.source, step.weight, *(load.buffer for load in loads)} - {step.buffer}
        case MatrixProduct():
            loads = loads_below(store.value for store in step.stores)
            factors = (step.left.buffer, step.right.buffer)
            return {*factors, *(load.buffer for load in loads)} - {step.buffer}
