"""Rows of a result that are made in parts: a block makes some whole ones in shared memory and stores them.

A row of nine numbers a thread, or one of 63 in three parts, is written a few bytes here and a few there:
each store of a warp touches many lines of memory, and sectors in part. Owns which kernels make such rows,
together where each makes a part of them, and how many rows a block has. Never writes text:
staged_kernel.py does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.apart import apart_of
from workbench.playbook.analysis.row_cuts import cut_of
from workbench.playbook.analysis.row_totals import buffers_read
from workbench.playbook.analysis.turning import turn_of
from workbench.playbook.ir.program import Buffer, Kernel, Program, ProgramStep, Store
from workbench.playbook.ir.sizes import ONE, ZERO, Size, number, product
from workbench.playbook.ir.stencil import strips_of
from workbench.playbook.ir.views import Axis, NotAView, View, split

Cases = Sequence[Mapping[str, int]]
WORD = 16
"""Bytes that a thread stores with one instruction."""
LEAST_ROWS = 16
"""Of a block: a multiple of what makes a vector, so that what it stores begins at the border of one."""
TILE_BYTES, _MOST_TILE = 16_384, 49_152
"""Of a block's rows: as many as fit in so much; and the most, where each of its threads has one."""
_MOST_ROW = TILE_BYTES // LEAST_ROWS
"""Bytes of a row: a longer one is stored as it is made, whole sectors but for its ends."""
_CHECKED = 2**16
"""Elements of a row at most, at a size at which each is looked for."""
_BANK, _SECTOR = 4, 32


@dataclass(frozen=True)
class Tensor:
    """A result that has such rows."""

    buffer: str
    row: Size
    """Elements."""
    bytes: int
    """Of an element."""
    padded: bool
    """An element is left free behind each row in shared memory: threads with a row each meet in no bank."""

    @property
    def pitch(self) -> Size:
        """Elements from one row to the next in shared memory."""
        return self.row + ONE if self.padded else self.row


@dataclass(frozen=True)
class Part:
    """A kernel, and for how many places of each row it has results."""

    kernel: Kernel
    places: Size


@dataclass(frozen=True)
class StagedRows:
    """Kernels that become one."""

    parts: tuple[Part, ...]
    rows: Size
    tensors: tuple[Tensor, ...]

    @property
    def a_thread_each(self) -> bool:
        """True where each thread has one row."""
        return all(part.places.is_one for part in self.parts)

    @property
    def row_bytes(self) -> Size:
        """Shared memory that a row takes, of all tensors."""
        sizes = [one.pitch * number(one.bytes) for one in self.tensors]
        return sum(sizes[1:], start=sizes[0])

    def block_rows(self, threads: int, case: Mapping[str, int]) -> int:
        """Rows of a block."""
        row = self.row_bytes.at(case)
        if self.a_thread_each and threads * row <= _MOST_TILE:
            return threads
        return max(1, TILE_BYTES // max(row, 1) // LEAST_ROWS * LEAST_ROWS)

    def tensor(self, buffer: str) -> Tensor | None:
        """The tensor with such rows that a buffer is."""
        return next((one for one in self.tensors if one.buffer == buffer), None)


# ------------------------------------------------------------------------------------ which steps


def with_staged(
    program: Program, steps: Sequence[ProgramStep], apart: bool, cases: Cases, declared: int
) -> list[ProgramStep]:
    """The steps, with those that make parts of the same rows as one whose ``parts`` they are.

    ``apart`` says that a thread has all elements of an axis of few. The first ``declared`` cases are those
    in which it has to pay.
    """
    found: list[ProgramStep] = []
    for able, run in groupby(steps, lambda step: isinstance(step, Kernel) and _is_plain(program, step)):
        if not able:
            found += run
            continue
        for together in _writing_together([step for step in run if isinstance(step, Kernel)]):
            rows = staged_rows(program, together, apart, cases)
            if rows is None or not worth_staging(rows, cases[:declared]):
                found += together
            else:
                stores = [store for kernel in together for store in kernel.stores]
                found.append(Kernel(stores, parts=tuple(together)))
    return found


def _is_plain(program: Program, kernel: Kernel) -> bool:
    """True for kernels without rows of their own, that neither tiles nor windows give another form."""
    if kernel.tail or kernel.ahead or kernel.steps or any(store.level != "flat" for store in kernel.stores):
        return False
    windows = program.stencils
    return turn_of(kernel) is None and not strips_of(kernel, windows) and cut_of(kernel, windows) is None


def _writing_together(run: list[Kernel]) -> Iterator[list[Kernel]]:
    """Kernels that follow one another and write the same tensor, and need nothing of one another."""
    together: list[Kernel] = []
    for kernel in run:
        made = {store.buffer for one in together for store in one.stores}
        same = bool(made & {store.buffer for store in kernel.stores})
        if together and (not same or made & buffers_read(kernel)):
            yield together
            together = []
        together = [*together, kernel]
    yield together


def worth_staging(rows: StagedRows, declared: Cases) -> bool:
    """False where nothing is gained: a thread's row is one vector, parts are whole sectors, or rows long."""
    if any(rows.row_bytes.at(case) > _MOST_ROW for case in declared):
        return False
    if rows.a_thread_each:
        lengths = [one.row.at(case) * one.bytes for one in rows.tensors for case in declared]
        return any(length > WORD or length & (length - 1) for length in lengths)
    begins = [
        (store.view.offset, rows.tensor(store.buffer)) for part in rows.parts for store in part.kernel.stores
    ]
    return any(
        at.at(case) * one.bytes % _SECTOR
        for offset, one in begins
        if one is not None
        for at in (offset, one.row)
        for case in declared
    )


# ------------------------------------------------------------------------------------ which rows


def staged_rows(program: Program, kernels: Sequence[Kernel], apart: bool, cases: Cases) -> StagedRows | None:
    """The rows that kernels make together; None where they make none, or leave some of a row out."""
    if apart:
        cuts = [(kernel, apart_of(program.pool, kernel)) for kernel in kernels]
        kernels = [kernel if cut is None else cut.kernel for kernel, cut in cuts]
    stores = [store for kernel in kernels for store in kernel.stores]
    rows = next((store.view.axes[0].size for store in stores if _has_rows(store)), None)
    if rows is None or not all(rows.divides(kernel.stores[0].columns) for kernel in kernels):
        return None
    parts = tuple(Part(kernel, kernel.stores[0].columns // rows) for kernel in kernels)
    alone = all(part.places.is_one for part in parts)
    names = dict.fromkeys(store.buffer for store in stores)
    tensors = [
        _tensor(program.buffers[name], [s for s in stores if s.buffer == name], rows, alone, cases)
        for name in names
    ]
    kept = tuple(one for one in tensors if one is not None)
    return StagedRows(parts, rows, kept) if kept else None


def _has_rows(store: Store) -> bool:
    """True where results do not simply follow one another: what lies between is another store's."""
    axes = store.view.axes
    return bool(axes) and not store.view.is_linear and not axes[0].stride.is_one


def _tensor(buffer: Buffer, stores: list[Store], rows: Size, alone: bool, cases: Cases) -> Tensor | None:
    """The buffer where its rows are whole once all stores have been made."""
    row = stores[0].view.axes[0].stride if stores[0].view.axes else ZERO
    if len(stores) < 2 or buffer.role != "made" or rows * row != product(buffer.shape):
        return None
    columns = [_columns(store, rows, row) for store in stores]
    views = [view for view in columns if view is not None]
    if len(views) < len(stores):
        return None
    sizes = [view.size for view in views]
    if sum(sizes[1:], start=sizes[0]) != row or not all(
        _is_whole(views, row.at(case), case) for case in cases
    ):
        return None
    size = DTYPE_BYTES[buffer.dtype]
    words, rest = divmod((row.number or 1) * size, _BANK)
    return Tensor(buffer.name, row, size, alone and not rest and words % 4 == 0)


def _columns(store: Store, rows: Size, row: Size) -> View | None:
    """Where in its row a store has results."""
    try:
        along, column = split(store.view, rows, store.columns // rows)
    except NotAView:
        return None
    return View(column.axes, store.view.offset) if along.axes == (Axis(rows, row),) else None


def _is_whole(views: Sequence[View], row: int, case: Mapping[str, int]) -> bool:
    """True where views find each place of a row once."""
    if row > _CHECKED:
        return True
    found: list[int] = []
    for view in views:
        places = [view.offset.at(case)]
        for axis in view.axes:
            places = [at + step * axis.stride.at(case) for at in places for step in range(axis.size.at(case))]
        found += places
    return sorted(found) == list(range(row))
