"""What every walk down planes has: rows that are read ahead of need, values that wait, and the loop itself.

Owns what is the same whether a thread has one plane or several side by side. Never spells a load or a result:
walk_down_kernel.py and beside_rows.py do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from workbench.playbook.analysis.row_cuts import RowCut
from workbench.playbook.ir.expr import Load, leaves
from workbench.playbook.kernels.kernel_text import block
from workbench.playbook.kernels.planes import Planes, plus, times
from workbench.playbook.text.cuda_text import CTYPES


@dataclass
class PlaneWalk(Planes):
    """The kernel being written."""

    cut: RowCut = field(kw_only=True)
    read: dict[tuple[int, int], str] = field(default_factory=dict)
    """Arrays of what was read ahead, by the number of the stencil and the serial of the load."""

    @property
    def ahead(self) -> int:
        """Steps whose rows are on their way."""
        return self.frame.site.schedule.items

    def slot(self, place: str) -> str:
        """Which of these steps, where there are several."""
        return f"[{place}]" if self.ahead > 1 else ""


Row = Callable[[int, Load], tuple[list[str], list[str]]]
"""Of a load of a stencil by number: statements in front of the walk, and those that read a step's rows."""


def read_ahead(walk: PlaneWalk, row: Row) -> list[str]:
    """Where planes begin, the arrays of rows, and the function that asks for those of a step."""
    cut, lines = walk.cut, list[str]()
    asked: dict[int, list[str]] = {}
    for number, stencil in enumerate(walk.stencils):
        for leaf in leaves(stencil.source):
            assert isinstance(leaf, Load)
            before, statements = row(number, leaf)
            lines += before
            asked.setdefault(cut.rows(stencil), []).extend(statements)
    inner: list[str] = []
    for rows, statements in asked.items():
        at = f"const int at_y = {at_row(cut)}{' + r' if rows > 1 else ''};"
        every = each_row(rows, [at, *statements])
        inner += block("", every) if rows == 1 and len(asked) > 1 else every
    return [
        *lines,
        "// Asks for the rows that the step needs at which results of row y are whole.",
        *block(f"const auto read = [&](int y{', int slot' if walk.ahead > 1 else ''})", inner)[:-1],
        "};",
    ]


def at_row(cut: RowCut) -> str:
    """The first row that the step reads at which results of row y are whole."""
    return f"{times('y', cut.stride)}{plus(cut.last * cut.stride - cut.before)}"


def several(count: int) -> str:
    """The part of an array's type that counts steps, or the rows of a step: of which there is mostly one."""
    return f"[{count}]" if count > 1 else ""


def each_row(count: int, body: list[str]) -> list[str]:
    """Statements for each row ``r`` of a step."""
    if count == 1:
        return body
    return ["#pragma unroll", *block(f"for (int r = 0; r < {count}; ++r)", body)]


def waiting_values(walk: PlaneWalk, planes: str = "") -> tuple[list[str], list[list[str]]]:
    """Arrays of what waits, and for each level where each of its values is.

    ``planes`` is how many a thread has, where that is several: its planes are ``c`` then.
    """
    names: dict[tuple[str, int], str] = {}
    found: list[list[str]] = []
    for level, parts in enumerate(walk.cut.waiting):
        counts: dict[str, int] = {}
        found.append([])
        for part in parts:
            slot = part.dtype, counts.get(part.dtype, 0)
            counts[part.dtype] = slot[1] + 1
            if slot not in names:
                names[slot] = walk.frame.names.new("waiting")
            found[-1].append(f"{names[slot]}[{level}][k]{'[c]' if planes else ''}")
    size = f"[{walk.cut.last}][SIDE]{f'[{planes}]' if planes else ''}"
    return [f"{CTYPES[slot[0]]} {name}{size};" for slot, name in names.items()], found


def taking(arrays: list[str], body: list[str]) -> list[str]:
    """The arrays of what waits, and the function that takes in the rows of a step."""
    return [
        "// What is made so far of results that are not whole: those of the row before have one step less.",
        *arrays,
        "// Takes in what was read, while the next is on its way. No result that began more steps ago than",
        "// `begun` is the thread's.",
        *block("const auto take = [&](int y, int begun)", body)[:-1],
        "};",
    ]


def loops(walk: PlaneWalk) -> list[str]:
    """The walk: results that began above the thread's first are not its own."""
    last, ahead = walk.cut.last, walk.ahead
    first = [f"read(first_y - {last});"]
    if ahead > 1:
        loop = f"for (int slot = 0; slot < {ahead}; ++slot)"
        first = ["#pragma unroll", *block(loop, [f"read(first_y - {last} + slot, slot);"])]
    return [
        *first,
        "#pragma unroll",
        *block(f"for (int begun = 0; begun < {last}; ++begun)", [f"take(first_y - {last} + begun, begun);"]),
        f"#pragma unroll {ahead + 1}",
        *block("for (int y = first_y; y < last_y; ++y)", [f"take(y, {last});"]),
    ]
