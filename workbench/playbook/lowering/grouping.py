"""Stores that are put into one kernel.

Owns the rule which kernels are one: those over the same space that share what they read, or make pieces of
one tensor where one of them reads nothing. What is written to memory is decided in lower.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from workbench.playbook.analysis.placement import Placement, matrix
from workbench.playbook.ir.expr import Expr, Load, Pool, loads_below, unguarded
from workbench.playbook.ir.program import (
    Kernel,
    LibraryCall,
    ProgramStep,
    RecurrentLayers,
    Scan,
    Scatter,
    Store,
)
from workbench.playbook.ir.sizes import ONE
from workbench.playbook.ir.views import Axis, NotAView, split
from workbench.playbook.text.indexing import is_unit


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
        reads, writes = read_and_written(step)
        if reads & made or writes & needed:
            return False
    return True


def read_and_written(step: ProgramStep | Store) -> tuple[set[str], set[str]]:
    """Buffers that a step reads, and those that it writes."""
    match step:
        case LibraryCall():
            return step.read, set(step.results)
        case Scan():
            return {load.buffer for value in step.values for load in _loads(value)}, set(step.written)
        case Scatter():
            return set(step.read), {step.buffer}
        case RecurrentLayers():
            return set(step.read), set(step.results)
        case Store():
            return {load.buffer for load in _loads(step.value)}, {step.buffer}
    found = [read_and_written(store) for store in step.stores]
    return set[str]().union(*(reads for reads, _ in found)), set[str]().union(*(made for _, made in found))


def _along(pool: Pool, flat: Kernel, rows: Kernel) -> list[Store] | None:
    """The stores of a pointwise kernel over the space of a row kernel, when they share loads there."""
    space = rows.stores[0]
    if flat.stores[0].columns != space.rows * space.columns:
        return None
    moved = _placed(pool, flat, rows, matrix(space.rows, space.columns))
    if moved is None and all(store.level == "row" for store in rows.stores):
        for placement in _in_memory_order(flat, rows):
            moved = _placed(pool, flat, rows, placement)
            if moved is not None:
                return moved if _side_by_side(moved) else None
    return moved


def _placed(pool: Pool, flat: Kernel, rows: Kernel, placement: Placement) -> list[Store] | None:
    """The stores over the rows and columns of a placement; None where one of them shares no load there."""
    space = rows.stores[0]
    shared = set[Load]().union(*(_loads(store.value) for store in rows.stores))
    moved = []
    for store in flat.stores:
        try:
            value, view = pool.through(store.value, placement.place), placement.place(store.view)
        except NotAView:
            return None
        if not shared & _loads(value):
            return None
        moved.append(Store(store.buffer, value, view, space.rows, space.columns, "full"))
    return moved


def _in_memory_order(flat: Kernel, rows: Kernel) -> Iterator[Placement]:
    """Where rows and columns of a kernel lie in the space of another that reads the same tensor as it lies.

    The sum over the rows of a matrix has results side by side whose elements lie a row apart: what is
    computed of each element on its way can be stored there and then.
    """
    space = rows.stores[0]
    as_they_lie = {one.buffer for store in flat.stores for one in _loads(store.value) if one.view.is_linear}
    for load in sorted(
        set[Load]().union(*(_loads(s.value) for s in rows.stores)), key=lambda one: one.serial
    ):
        if load.buffer not in as_they_lie or load.lookups:
            continue
        try:
            row, column = split(load.view, space.rows, space.columns)
        except NotAView:
            continue
        axes = [(axis, True) for axis in row.axes] + [(axis, False) for axis in column.axes]
        if (order := _by_stride(axes)) is not None and load.view.offset.is_zero:
            yield Placement(tuple(axis.size for axis, _ in order), tuple(is_row for _, is_row in order))


def _by_stride(axes: list[tuple[Axis, bool]]) -> list[tuple[Axis, bool]] | None:
    """Axes from slowest to fastest that are a whole tensor, its rows and its columns each in their order."""
    left, found, step = list(axes), list[tuple[Axis, bool]](), ONE
    while left:
        nearest = next((one for one in left if one[0].stride == step), None)
        if nearest is None:
            return None
        left.remove(nearest)
        found.insert(0, nearest)
        step = step * nearest[0].size
    kept = [[axis for axis, is_row in part if is_row] for part in (axes, found)]
    across = [[axis for axis, is_row in part if not is_row] for part in (axes, found)]
    return found if kept[0] == kept[1] and across[0] == across[1] else None


def _side_by_side(stores: list[Store]) -> bool:
    """True where neighbouring rows find neighbours in all that is read and written, or the same."""
    for store in stores:
        rows, _ = split(store.view, store.rows, store.columns)
        plain = {expr.serial for expr in unguarded(store.value)}
        for load in _loads(store.value):
            row, _ = split(load.view, store.rows, store.columns)
            if load.lookups or load.serial not in plain or not (row.is_constant or is_unit(row)):
                return False
        if not is_unit(rows):
            return False
    return True


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
        if same and (any(reads & _loads(other.value) for other in step.stores) or _completes(step, store)):
            return position
    return None


def _completes(step: Kernel, store: Store) -> bool:
    """True for pieces of one tensor of which some are constants, as the zeros of a matrix are."""
    reads = any(_loads(other.value) for other in step.stores)
    return store.buffer in {other.buffer for other in step.stores} and not (reads and _loads(store.value))


@lru_cache(maxsize=4096)
def _loads(value: Expr) -> frozenset[Load]:
    """What a value needs: asked again of every store for each one that looks for a kernel."""
    return frozenset(loads_below([value]))
