"""What rows of few elements ask of L1: lines of 128 bytes, where a thread reads or writes whole rows.

Owns the count; estimate.py makes times of it. A guess, as far as loads go: nobody has measured how much L1
keeps of such lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.ir.expr import Load
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.kernels.whole_rows import rows_of, together
from workbench.playbook.kernels.window_runs import window_runs

_WORD = 16
"""Bytes that a thread moves with one instruction, at most."""
_LANES, _LINE = 32, 128
_SECTOR, _SHORT_RUN = 32, 512
"""Bytes of a sector, and of a run of neighbours at most whose lines are counted: longer ones are whole."""
_BEYOND = 5.4
"""Clocks of a multiprocessor for each line that a store touches beyond the least, and writes a part of: all
together get rid of some 45 a nanosecond. Rows of nine floats for each of 1,000,000 threads take 53.7 us on an
H200, of which the bytes alone are 13: 2.3 million such lines, or 2.0 million if a thread has four rows in
vectors, of which the receipt tells nothing. A norm that writes 16.8 million elements, each to a line of its
own, takes 412; 4096 threads with 64 results each take 14.8, 12.0 by this. Against it: 42.3, with 1.9 million,
where eight lanes reduced a row of nine and one of them stored it."""


def lines_of_rows(asked: Asked, kernel: Kernel, loads: Sequence[Load], width: int) -> Mapping[Load, float]:
    """Lines an element of each load that is part of a row, in the units of ``reach.lines_of``.

    That is one for neighbours that are read one by one, and less for vectors of them: a warp's request for
    what lies side by side counts once, and as often more as it touches lines that it takes little of.
    """
    if not rows_of(kernel.stores):
        return {}
    found = {}
    for run in window_runs(loads, [asked.sizes]):
        vectors = together(run.first.view, run.apart)
        each = _lines(asked.element(run.first), run.apart, width, vectors)
        found.update(dict.fromkeys(run.loads, each))
    return found


def stored_lines(asked: Asked, kernel: Kernel, width: int) -> float:
    """The same of all results that are stored few at a time: of rows a thread, or of parts of rows."""
    rows = rows_of(kernel.stores)
    found = 0.0
    for row in rows:
        size, vectors = asked.element_of(row.buffer), together(row.begin, row.few)
        found += row.few * _lines(size, row.few, width, vectors)
        if not asked.as_written:
            found += row.few * _BEYOND * _beyond(size, row.few, width, vectors)
    in_rows = {id(store) for row in rows for store in row.stores}
    parts = [] if asked.as_written else [store for store in kernel.stores if id(store) not in in_rows]
    return found + sum(_part_lines(asked, store, width) for store in parts)


def _part_lines(asked: Asked, store: Store, width: int) -> float:
    """Of a part of each row: one element, or neighbours that begin or end inside of sectors. These are a line
    more for each request, and one for each part that it reaches into."""
    axes, size = store.view.axes, asked.element_of(store.buffer)
    if not axes:
        return 0.0
    if not axes[-1].stride.is_one:
        touched = abs(asked.at(axes[-1].stride)) * size * width * _LANES / _LINE
        return _BEYOND * max(0.0, min(_LANES, touched) - 1.0)
    if len(axes) < 2:
        return 0.0
    run = asked.at(axes[-1].size)
    borders = (run, asked.at(axes[-2].stride), asked.at(store.view.offset))
    if run * size > _SHORT_RUN or all(border * size % _SECTOR == 0 for border in borders):
        return 0.0
    return _BEYOND * (1.0 + _LANES * width / run) / width


def _lines(size: int, few: int, width: int, vectors: int) -> float:
    """Of a request, over what it needs at least, an element; ``vectors`` move as one."""
    word, touched = _request(size, few, width, vectors)
    return size / word * touched / _least(word)


def _beyond(size: int, few: int, width: int, vectors: int) -> float:
    """Of a request, beyond what it needs at least, an element."""
    word, touched = _request(size, few, width, vectors)
    return size / word * max(0.0, touched - _least(word))


def _request(size: int, few: int, width: int, vectors: int) -> tuple[int, float]:
    """Bytes that a thread moves with one request, and lines that a warp touches with it."""
    word = size if width == 1 else min(_WORD, size * width * vectors)
    return word, min(_LANES, few * width * size * _LANES / _LINE)


def _least(word: int) -> float:
    return max(1.0, word * _LANES / _LINE)
