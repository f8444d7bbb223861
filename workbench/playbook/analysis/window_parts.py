"""Windows along rows of what another kernel has just made: both kernels may be one.

Owns which two kernels of a program may be, and how results lie on blocks then; window_kernel.py writes it. A
large pool is such a pair: sums down the columns, and sums of neighbours among these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.placement import identity
from workbench.playbook.analysis.row_totals import buffers_read
from workbench.playbook.ir.expr import Load, walk
from workbench.playbook.ir.program import Kernel, Program, ProgramStep
from workbench.playbook.ir.sizes import Size, product
from workbench.playbook.ir.stencil import Stencil, Window
from workbench.playbook.text.plan_lines import atom

_COLUMNS, _A_THREAD = 2048, 8
"""Elements of a block's parts at most, and those for each of its threads."""
_MOST_ROWS = 32
_ENOUGH = 512
"""Blocks that a card has work for: a guess, some four a multiprocessor."""
_MOST_BYTES = 16
"""Of the parts at one place, such as a value and where it was found."""


@dataclass(frozen=True)
class Parts:
    """The windows through which one kernel sees what the other makes: along rows, one tensor or several."""

    stencils: tuple[Stencil, ...]
    """One for each tensor."""

    @property
    def window(self) -> Window:
        """That slides along the rows."""
        return self.stencils[0].along

    @property
    def width(self) -> Size:
        """Parts of a row."""
        return self.stencils[0].shape[-1]

    @property
    def rows(self) -> Size:
        """Of all planes: of parts, and of results."""
        return product(self.stencils[0].shape[:-1])

    @property
    def buffers(self) -> tuple[str, ...]:
        """The tensors, by stencil."""
        return tuple(load.buffer for one in self.stencils if isinstance(load := one.source, Load))


def in_one_launch(program: Program, steps: list[ProgramStep]) -> list[ProgramStep]:
    """The steps; a kernel that only another's windows read is made where they are."""
    found = list(steps)
    for step in steps:
        parts = parts_of(step, program.stencils) if isinstance(step, Kernel) else None
        if parts is None or not isinstance(step, Kernel):
            continue
        ahead = next((one for one in found if isinstance(one, Kernel) and _makes(one, parts)), None)
        if ahead is not None and _is_private(program, ahead, step, parts):
            found[found.index(step)] = replace(step, ahead=ahead)
            found.remove(ahead)
    return found


def parts_of(kernel: Kernel, known: tuple[Stencil, ...]) -> Parts | None:
    """The windows of a kernel that all slide along rows only, over tensors of one shape."""
    if kernel.stores[0].level != "flat" or kernel.tail is not None:
        return None
    used = {part.serial for store in kernel.stores for part in walk(store.value)}
    mine = tuple(one for one in known if used & one.places.keys() and _is_along_rows(one))
    if len({(one.shape, one.windows) for one in mine}) != 1 or mine[0].results != _line(kernel):
        return None
    return Parts(mine) if len({one.source for one in mine}) == len(mine) and _is_short(mine) else None


def _line(kernel: Kernel) -> Size:
    return kernel.stores[0].columns


def _is_along_rows(one: Stencil) -> bool:
    still = all(w.count == 1 and w.stride == 1 and w.padding == 0 for w in one.windows[:-1])
    whole = isinstance(one.source, Load) and one.source.view.is_linear and not one.source.lookups
    return still and whole and one.along.count > 1 and not one.behind


def _is_short(stencils: tuple[Stencil, ...]) -> bool:
    one = stencils[0].along
    bytes_ = sum(DTYPE_BYTES[stencil.source.dtype] for stencil in stencils)
    return 4 * max(one.extent, one.stride) <= _COLUMNS and bytes_ <= _MOST_BYTES


def _makes(kernel: Kernel, parts: Parts) -> bool:
    """True for a kernel of pointwise work that makes just these tensors, in their own order."""
    stores = kernel.stores
    whole = all(store.view == identity(store.columns) and store.level == "flat" for store in stores)
    alone = kernel.tail is None and kernel.ahead is None
    same = {store.buffer for store in stores} == set(parts.buffers)
    return alone and same and whole and _line(kernel) == parts.rows * parts.width


def _is_private(program: Program, ahead: Kernel, reader: Kernel, parts: Parts) -> bool:
    """True where nobody else reads what is made ahead, and the reader only through its windows."""
    made = set(parts.buffers)
    if any(output.buffer in made for output in program.outputs):
        return False
    if any(made & buffers_read(step) for step in program.steps if step not in (ahead, reader)):
        return False
    places = {serial for one in parts.stencils for serial in one.places}
    waiting, met = [store.value for store in reader.stores], set(places)
    while waiting:
        part = waiting.pop()
        if part.serial in met:
            continue
        met.add(part.serial)
        if isinstance(part, Load) and part.buffer in made:
            return False
        waiting += part.operands
    return True


@dataclass(frozen=True)
class Blocks:
    """How results lie on blocks: some whole rows of them, or a stretch of one."""

    columns: int
    """Parts that a block may have."""
    most: int
    """Results of a stretch at most."""
    window: Window

    def stretches(self, results: int) -> int:
        """That a row of so many results is cut into."""
        return -(-results // self.most)

    def span(self, results: int) -> int:
        """Parts under the windows of a stretch."""
        each = -(-results // self.stretches(results))
        return (each - 1) * self.window.stride + self.window.extent

    def rows(self, results: int, rows: int) -> int:
        """That a block takes: fewer where the card would go short of blocks."""
        share = rows * self.stretches(results) // _ENOUGH
        return max(1, min(_MOST_ROWS, self.columns // self.span(results), share))

    def grid(self, rows: str, results: str) -> str:
        """Blocks, in the plan language."""
        stretches = f"cdiv({results}, {self.most})"
        each = f"cdiv({results}, {stretches})"
        if results.isdecimal():
            a_row = self.stretches(int(results))
            stretches, each = str(a_row), str(-(-int(results) // a_row))
        reach = str(self.span(int(results))) if results.isdecimal() else f"({self._reach(each)})"
        fit = str(self.columns // int(reach)) if reach.isdecimal() else f"{self.columns} // {reach}"
        times = "" if stretches == "1" else f" * {stretches}"
        share = f"{atom(rows)}{times} // {_ENOUGH}"
        abreast = f"max(1, min({_MOST_ROWS}, {fit}, {share}))"
        return f"cdiv({rows}, {abreast}){times}"

    def _reach(self, results: str) -> str:
        """Parts under the windows of neighbouring results, as text."""
        beyond = self.window.extent - self.window.stride
        steps = f"{results} * {self.window.stride}" if self.window.stride > 1 else results
        return steps if not beyond else f"{steps} {'+' if beyond > 0 else '-'} {abs(beyond)}"

    def constants(self, rows: str, results: str) -> list[str]:
        """The same as constants of the kernel."""
        return [
            f"constexpr int STRETCHES = ({results} + {self.most - 1}) / {self.most};",
            f"constexpr int EACH = ({results} + STRETCHES - 1) / STRETCHES;",
            f"constexpr int REACH = {self._reach('EACH')};",
            "// As many rows as there is room for, if that leaves blocks for the whole card.",
            f"constexpr long long SHARE = 1LL * {rows} * STRETCHES / {_ENOUGH};",
            f"constexpr int FIT = {self.columns} / REACH < SHARE ? {self.columns} / REACH : int(SHARE);",
            f"constexpr int ABREAST = FIT < 1 ? 1 : FIT > {_MOST_ROWS} ? {_MOST_ROWS} : FIT;",
        ]


def blocks_of(parts: Parts, threads: int) -> Blocks:
    """How many results a block of so many threads has."""
    columns = min(_COLUMNS, _A_THREAD * threads)
    window = parts.window
    return Blocks(columns, max(1, (columns - window.extent) // window.stride + 1), window)
