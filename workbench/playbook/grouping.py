"""Stores that are put into one kernel.

Owns the rule which kernels are one: those over the same space that share what they read. What is written
to memory is decided in lowering.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.playbook.expr import Expr, Load, Pool, walk
from workbench.playbook.placement import matrix
from workbench.playbook.program import (
    Kernel,
    LibraryArgument,
    LibraryCall,
    ProgramStep,
    Scan,
    Scatter,
    Store,
)
from workbench.playbook.views import NotAView


@dataclass(frozen=True)
class Operation:
    """A store or call in the order it was asked for."""

    store: Store | None = None
    call: LibraryCall | Scan | Scatter | None = None


def absorbed(pool: Pool, steps: list[ProgramStep]) -> list[ProgramStep]:
    """Pointwise kernels that read what a row kernel reads anyway are computed along with it."""
    result = list(steps)
    for flat in [step for step in steps if isinstance(step, Kernel) and step.stores[0].level == "flat"]:
        for rows in [step for step in result if isinstance(step, Kernel) and step is not flat]:
            if rows.stores[0].level != "flat" and _may_move(result, flat, rows):
                moved = _along(pool, flat, rows)
                if moved is not None:
                    rows.stores.extend(moved)
                    result.remove(flat)
                    break
    return result


def _may_move(steps: list[ProgramStep], flat: Kernel, rows: Kernel) -> bool:
    """True when nothing between the two kernels, nor the row kernel, needs or makes what ``flat`` does."""
    first, last = sorted((steps.index(flat), steps.index(rows)))
    made = {store.buffer for store in flat.stores}
    needed = {load.buffer for store in flat.stores for load in _loads(store.value)}
    for step in steps[first : last + 1]:
        if step is flat:
            continue
        if isinstance(step, LibraryCall):
            reads = {arg.buffer for arg in _flattened(step.given) if isinstance(arg, LibraryArgument)}
            writes = set(step.results)
        elif isinstance(step, Scan):
            reads = {load.buffer for value in step.values for load in _loads(value)}
            writes = set(step.written)
        elif isinstance(step, Scatter):
            reads, writes = step.read, {step.buffer}
        else:
            reads = {load.buffer for store in step.stores for load in _loads(store.value)}
            writes = {store.buffer for store in step.stores}
        if reads & made or writes & needed:
            return False
    return True


def _flattened(args: tuple[object, ...]) -> list[object]:
    found: list[object] = []
    for arg in args:
        found += _flattened(arg) if isinstance(arg, tuple) else [arg]
    return found


def _along(pool: Pool, flat: Kernel, rows: Kernel) -> list[Store] | None:
    """The stores of a pointwise kernel over the space of a row kernel, when they share loads there."""
    space = rows.stores[0]
    place = matrix(space.rows, space.columns).place
    if flat.stores[0].columns != space.rows * space.columns:
        return None
    shared = set[Load]().union(*(_loads(store.value) for store in rows.stores))
    moved = []
    for store in flat.stores:
        try:
            value = pool.through(store.value, place)
            moved.append(Store(store.buffer, value, place(store.view), space.rows, space.columns, "full"))
        except NotAView:
            return None
        if not shared & _loads(value):
            return None
    return moved


def grouped(operations: list[Operation], fuse: bool) -> list[ProgramStep]:
    """Merge stores over the same space whose inputs are ready into one kernel."""
    steps: list[ProgramStep] = []
    made_at: dict[str, int] = {}
    for operation in operations:
        if operation.call is not None:
            steps.append(operation.call)
            call = operation.call
            made = call.results if isinstance(call, LibraryCall) else (call.buffer,)
            made_at.update(dict.fromkeys(made, len(steps) - 1))
            continue
        store = operation.store
        assert store is not None
        position = _home(steps, made_at, store) if fuse else None
        if position is None:
            steps.append(Kernel([store]))
            position = len(steps) - 1
        else:
            step = steps[position]
            assert isinstance(step, Kernel)
            step.stores.append(store)
        made_at[store.buffer] = max(position, made_at.get(store.buffer, 0))
    return steps


def _home(steps: list[ProgramStep], made_at: dict[str, int], store: Store) -> int | None:
    reads = _loads(store.value)
    ready = max((made_at[load.buffer] for load in reads if load.buffer in made_at), default=-1)
    for position, step in enumerate(steps):
        if position <= ready or not isinstance(step, Kernel):
            continue
        first = step.stores[0]
        same = (first.rows, first.columns) == (store.rows, store.columns)
        same &= (first.level == "flat") == (store.level == "flat")
        if same and any(reads & _loads(other.value) for other in step.stores):
            return position
    return None


def _loads(value: Expr) -> set[Load]:
    return {e for e in walk(value, into_reductions=True) if isinstance(e, Load)}
