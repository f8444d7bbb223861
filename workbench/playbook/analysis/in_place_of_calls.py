"""Kernels in place of library calls, with the pointwise work behind them that goes into the same kernel.

Owns which kernels behind a call need a result and nothing beside it. Which calls a kernel can make is the
business of convolutions.py and matrix_products.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from workbench.playbook.analysis.row_totals import buffers_read
from workbench.playbook.ir.expr import Expr, Load, Pool, loads_below
from workbench.playbook.ir.program import InPlaceOfCall, Kernel, LibraryCall, Program, ProgramStep

Joined = Callable[[Pool, InPlaceOfCall, Kernel], InPlaceOfCall | None]
"""What a kernel in place of a call is with one behind it; None where the two stay two."""


def with_tail(pool: Pool, made: InPlaceOfCall, step: Kernel) -> InPlaceOfCall | None:
    """The kernel with the values of another to store; None where these need more than one result each."""
    (own,) = made.stores
    if any(store.level != "flat" or store.columns != own.view.size for store in step.stores):
        return None
    if any(load.view != own.view or load.lookups for load in _read(made, step)):
        return None

    def with_addend(expr: Expr) -> Expr | None:
        """What the call adds to its results is added here."""
        return own.value if isinstance(expr, Load) and expr.buffer == made.buffer else None

    stores = (replace(store, value=pool.mapped(store.value, with_addend)) for store in step.stores)
    return replace(made, stores=tuple(stores))


def is_plain(made: InPlaceOfCall) -> bool:
    """True where results are stored as they are: the call adds nothing to them."""
    return all(isinstance(store.value, Load) for store in made.stores)


def in_place_of_calls(
    program: Program,
    steps: Sequence[ProgramStep],
    made_of: Callable[[LibraryCall], InPlaceOfCall | None],
    joined: Joined = with_tail,
) -> list[ProgramStep]:
    """The steps with kernels for the calls that ``made_of`` has one for, tails and all.

    ``joined`` says whether a kernel behind one is its tail, and what it is with that.
    """
    found = list(steps)
    for call in [step for step in steps if isinstance(step, LibraryCall)]:
        made = made_of(call)
        if made is None:
            continue
        tail = tail_of(program, found, call, made.buffer)
        if tail is not None and (whole := joined(program.pool, made, tail)) is not None:
            found[_place(found, tail)] = whole
            del found[_place(found, call)]
            continue
        found[_place(found, call)] = made
    return found


def tail_of(program: Program, steps: Sequence[ProgramStep], call: LibraryCall, buffer: str) -> Kernel | None:
    """The one kernel of stores that reads a call's results, where nobody else does; None without one."""
    readers = [step for step in steps if step is not call and buffer in buffers_read(step)]
    is_output = any(output.buffer == buffer for output in program.outputs)
    if len(readers) != 1 or is_output or not _is_of_stores(readers[0]):
        return None
    (tail,) = readers
    assert isinstance(tail, Kernel)
    return tail


def _is_of_stores(step: ProgramStep) -> bool:
    """True for a kernel of stores and nothing else."""
    return isinstance(step, Kernel) and not (
        step.tail or step.ahead or step.steps or step.parts or step.tables
    )


def _read(made: InPlaceOfCall, kernel: Kernel) -> Iterator[Load]:
    loads = loads_below(store.value for store in kernel.stores)
    return (load for load in loads if load.buffer == made.buffer)


def _place(steps: Sequence[ProgramStep], wanted: ProgramStep) -> int:
    return next(at for at, step in enumerate(steps) if step is wanted)
