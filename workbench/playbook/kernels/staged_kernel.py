"""Kernels whose blocks make whole rows of a result in shared memory, and store them as vectors side by side.

Owns the text of such a kernel; staged_rows.py says which rows they are and who makes which part of them.
"""

from __future__ import annotations

import re

from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.views import NotAView, View, split
from workbench.playbook.kernels.flat_kernel import line_scope, narrow_limits, narrowed, streams_stores
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Limits, Site, block, frame_for
from workbench.playbook.kernels.staged_rows import (
    LEAST_ROWS,
    TILE_BYTES,
    WORD,
    Part,
    StagedRows,
    Tensor,
)
from workbench.playbook.text.cuda_text import SUM, Text
from workbench.playbook.text.indexing import index_text, name_pieces
from workbench.playbook.text.plan_lines import atom
from workbench.playbook.text.scope import Scope, statement


def staged_kernel(site: Site, name: str, rows: StagedRows) -> KernelText:
    """Write the kernel of all parts of such rows."""
    whole = Kernel([store for part in rows.parts for store in part.kernel.stores])
    frame = frame_for(site, whole, vector=False)
    block_ = _Block(frame, rows)
    lines = block_.head()
    for part in rows.parts:
        lines += _part(block_, part)
    lines += block_.out()
    grid = f"cdiv({site.size(rows.rows)}, {_rows_a_block(site, rows)})"
    limits = Limits()
    if site.schedule.narrow:
        lines, limits = narrowed(lines), narrow_limits(site, whole)
    return frame.finish(name, lines, grid, limits)


def _rows_a_block(site: Site, rows: StagedRows) -> str:
    """Rows of a block, in the plan language."""
    if rows.row_bytes.number is not None:
        return str(rows.block_rows(site.schedule.threads, {}))
    return f"max(1, {TILE_BYTES} // {atom(site.size(rows.row_bytes))} // {LEAST_ROWS} * {LEAST_ROWS})"


# ------------------------------------------------------------------------------------ the block


class _Block:
    """The kernel being written: where a block makes its rows."""

    def __init__(self, frame: Frame, rows: StagedRows) -> None:
        self.frame = frame
        self.rows = rows
        self.is_fixed = rows.row_bytes.number is not None
        """Rows have the same length at any size, and wait in shared memory."""
        for word in ("here", "rows", "left"):
            frame.names.new(word)
        self.tiles = {one.buffer: frame.names.new(f"{one.buffer}_tile") for one in rows.tensors}
        self.places = dict(self.tiles)
        if not self.is_fixed:
            self.places = {one.buffer: frame.names.new(f"{one.buffer}_here") for one in rows.tensors}

    @property
    def has_a_row_a_thread(self) -> bool:
        """True where the rows of a block are as many as its threads."""
        threads = self.frame.site.schedule.threads
        return self.is_fixed and self.rows.a_thread_each and self.rows.block_rows(threads, {}) == threads

    def head(self) -> list[str]:
        """Which rows a block has, and where they are made."""
        macros, rows = self.frame.macros, self.rows
        lines = [
            "// A block makes whole rows in shared memory and stores them as vectors that lie side by side:"
        ]
        lines += [
            "// stored as they are made, few elements here and there, each would be a request of its own."
        ]
        if self.is_fixed:
            lines += [f"constexpr int ROWS_HERE = {rows.block_rows(self.frame.site.schedule.threads, {})};"]
        else:
            row = " + ".join(f"{one.bytes} * {macros.text(one.pitch)}" for one in rows.tensors)
            lines += [
                "// Rows that are too long for that are stored as they are made.",
                f"constexpr int FIT = {TILE_BYTES} / ({row}) / {LEAST_ROWS} * {LEAST_ROWS};",
                "constexpr int ROWS_HERE = FIT > 0 ? FIT : 1;",
            ]
        lines += [
            "const size_t first_row = size_t(blockIdx.x) * ROWS_HERE;",
            f"const size_t left = {macros.text(rows.rows)} - first_row;",
            "const int rows = left < ROWS_HERE ? left : ROWS_HERE;",
        ]
        for one in rows.tensors:
            lines += self._storage(one)
        return lines

    def _storage(self, one: Tensor) -> list[str]:
        """Where rows of a tensor are made."""
        macros, ctype, tile = self.frame.macros, self.frame.element_type(one.buffer), self.tiles[one.buffer]
        pitch = macros.text(one.pitch)
        count = f"ROWS_HERE * {pitch}" if self.is_fixed else f"FIT > 0 ? FIT * {pitch} : 1"
        lines = [f"__shared__ __align__({WORD}) {ctype} {tile}[{count}];"]
        if self.is_fixed:
            return lines
        begin = f"{self.frame.pointer(one.buffer)} + first_row * {macros.text(one.row)}"
        return [*lines, f"{ctype}* {self.places[one.buffer]} = FIT > 0 ? {tile} : {begin};"]

    def out(self) -> list[str]:
        """What a block does once all its rows are made."""
        lines = ["__syncthreads();", *(self._stored(one) for one in self.rows.tensors)]
        return lines if self.is_fixed else block("if (FIT > 0)", lines)

    def _stored(self, one: Tensor) -> str:
        frame, row = self.frame, self.frame.macros.text(one.row)
        function = f"store_{'padded' if one.padded else 'tile'}{'_once' if streams_stores(frame) else ''}"
        frame.helpers.add(function)
        given = f"{WORD // one.bytes}, {row}" if one.padded else str(WORD // one.bytes)
        target = f"{frame.pointer(one.buffer)} + first_row * {row}"
        return f"{function}<{given}>({target}, {self.tiles[one.buffer]}, rows * {row});"

    def place(self, part: Part, store: Store) -> str:
        """Where a result goes: among its row, or to memory where its tensor has no such rows."""
        tensor, macros = self.rows.tensor(store.buffer), self.frame.macros
        if tensor is None:
            return self.frame.element(store.buffer, index_text(store.view, "i", macros, wide=True))
        _, column = split(store.view, self.rows.rows, part.places)
        row = f"{'at' if part.places.is_one else 'here'} * {macros.text(tensor.pitch)}"
        within = index_text(View(column.axes, store.view.offset), "col", macros, wide=True)
        return f"{self.places[store.buffer]}[{_sum([Text(row), within]).code}]"


# ------------------------------------------------------------------------------------ a part of its rows


def _part(whole: _Block, part: Part) -> list[str]:
    """The loop over the results of a part: a thread has a row, or one place of it after the other."""
    frame, places = whole.frame, whole.frame.macros.text(part.places)
    scope = _scope(whole, part)
    scope.prepare(store.value for store in part.kernel.stores)
    for store in part.kernel.stores:
        value = frame.stored(store.buffer, scope.text(store.value).code)
        scope.lines += statement(f"{whole.place(part, store)} = {value};")
    lines = scope.lines
    for variable in ("i", "row", "col"):
        lines = name_pieces(lines, variable, frame.names)
    if part.places.is_one:
        lines = _named(lines, "i", "first_row + at")
        if whole.has_a_row_a_thread:
            return block("if (const int at = threadIdx.x; at < rows)", lines)
        return block("for (int at = threadIdx.x; at < rows; at += THREADS)", lines)
    lines = _named(lines, "i", f"first_row * {places} + at")
    lines = _named(_named(lines, "col", f"at % {places}"), "row", "first_row + here")
    lines = [f"const int here = at / {places};", *lines]
    return block(f"for (int at = threadIdx.x; at < rows * {places}; at += THREADS)", lines)


def _named(lines: list[str], name: str, code: str) -> list[str]:
    """The lines with an index that they use declared before them."""
    used = any(re.search(rf"\b{name}\b", line) for line in lines)
    return [f"const size_t {name} = {code};", *lines] if used else lines


def _scope(whole: _Block, part: Part) -> Scope:
    macros = whole.frame.macros

    def at(view: View) -> Text:
        if part.places.is_one:
            return index_text(view, "i", macros, wide=True)
        try:
            along, column = split(view, whole.rows.rows, part.places)
        except NotAView:
            return index_text(view, "i", macros, wide=True)
        return _sum(
            [index_text(along, "row", macros, wide=True), index_text(column, "col", macros, wide=True)]
        )

    return line_scope(whole.frame, at, {})


def _sum(terms: list[Text]) -> Text:
    found = [term for term in terms if term.code != "0"]
    return Text(" + ".join(term.code for term in found), SUM) if len(found) > 1 else (*found, Text("0"))[0]
