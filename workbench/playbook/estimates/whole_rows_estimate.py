"""What loads of whole rows of few elements ask of L1: lines of 128 bytes, where a thread has several rows.

Owns the count; estimate.py makes times of it. A guess: nobody has measured how much L1 keeps of such lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.ir.expr import Load
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.whole_rows import rows_of, together
from workbench.playbook.kernels.window_runs import window_runs

_WORD = 16
"""Bytes that a thread moves with one instruction, at most."""
_LANES, _LINE = 32, 128


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
    """The same of all results that are part of a row."""
    return sum(
        _lines(asked.element_of(row.buffer), row.few, width, together(row.begin, row.few)) * row.few
        for row in rows_of(kernel.stores)
    )


def _lines(size: int, few: int, width: int, vectors: int) -> float:
    """Of a request, over what it needs at least, an element; ``vectors`` move as one."""
    word = size if width == 1 else min(_WORD, size * width * vectors)
    touched = min(_LANES, few * width * size * _LANES / _LINE)
    return size / word * touched / max(1.0, word * _LANES / _LINE)
