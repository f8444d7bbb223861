"""The model of time for kernels of sliding windows whose threads walk down planes that lie side by side.

Owns what such a thread asks for; lifetime.py makes times of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.playbook.analysis import lifetime
from workbench.playbook.analysis.arithmetic import instructions_of, multiply_adds
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import FLAT_NS, Walk, Work
from workbench.playbook.analysis.reach import A_REQUEST
from workbench.playbook.analysis.row_cuts import RowCut, outside
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import Expr, Load, leaves, loads_below, walk
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.stencil import Stencil, seen_of
from workbench.playbook.schedules.residency import REGISTERS, resident
from workbench.playbook.text.indexing import is_unit

_LANES, _LINE, _REGISTER = 32, 128, 4
_A_STEP = 8.0
"""Instructions of a step beside what it reads and makes: where its rows are, and the loop."""
_A_READ = 3.0
"""Of each vector of a row: the load, whether it lies inside, and what is outside in its place."""
_MOST_REGISTERS, _AGAIN = 255, 2.0
"""Registers of a thread, and instructions of a step for each value that they do not hold."""
_BEGUN = 60.0
"""Instructions to find a thread's image, piece, columns and planes."""


def walk_beside_time(asked: Asked, kernel: Kernel, cut: RowCut) -> Estimate:
    """Time of a kernel whose threads have ``side`` columns of a vector of planes, ``down`` rows at most."""
    thread = _Thread(asked, kernel, cut)
    schedule = asked.schedule
    loads = loads_below(thread.roots)
    fresh, near = asked.from_memory(loads)
    stored = asked.stored(kernel.stores)
    again = sum(thread.again(stencil) for stencil in cut.stencils)
    walked = Walk(
        fresh_bytes=fresh / thread.warps,
        stored_bytes=stored / thread.warps,
        near_bytes=(near + again) / thread.warps,
        instructions=thread.instructions * _LANES,
        lines=thread.lines,
        trips=thread.steps / schedule.items,
    )
    teams = resident(asked.target, schedule, schedule.threads, thread.held) * schedule.threads // _LANES
    found = launched(asked, Work(thread.warps, _LANES, max(1, teams), (walked,), 0.0, 0.0, FLAT_NS))
    blocks = math.ceil(thread.warps * _LANES / schedule.threads)
    return replace(found, us=found.us + lifetime.crowded_us(asked.target, blocks, fresh + stored))


@dataclass(frozen=True)
class _Thread:
    """One thread of such a kernel."""

    asked: Asked
    kernel: Kernel
    cut: RowCut

    @property
    def roots(self) -> list[Expr]:
        return [store.value for store in self.kernel.stores]

    @property
    def _one(self) -> Stencil:
        return self.cut.stencils[0]

    @property
    def _side(self) -> int:
        return self.asked.schedule.side

    @property
    def _width(self) -> int:
        """Planes of a thread."""
        return self.asked.width(self._one.beside)

    @property
    def _pieces(self) -> int:
        return max(1, math.ceil(self.asked.at(self._one.down.out) / self.asked.schedule.down))

    @property
    def _down(self) -> int:
        return math.ceil(self.asked.at(self._one.down.out) / self._pieces)

    @property
    def steps(self) -> int:
        """Rows of results, and those before the first that is whole."""
        return self._down + self.cut.last

    @property
    def warps(self) -> int:
        """Of the launch."""
        asked, one = self.asked, self._one
        groups = math.ceil(asked.at(one.along.out) / self._side)
        threads = asked.at(one.images) * self._pieces * groups * asked.at(one.beside) / self._width
        return max(1, math.ceil(threads / _LANES))

    def _others(self) -> tuple[list[Load], list[Load]]:
        """What results need beside their windows: once for a plane, and each for itself."""
        loads = outside(self.kernel, self.cut)
        once = [load for load in loads if self._one.of_plane(load.view) is not None and not load.lookups]
        return once, [load for load in loads if load not in once]

    def _reads(self) -> Sequence[tuple[Load, int, int]]:
        """Loads of windows' elements: the elements of a plane that a step reads, and those of one vector."""
        found = []
        for stencil in self.cut.stencils:
            for load in _loads(stencil):
                steps = stencil.steps(load.view)
                wide = self._width if steps is not None and is_unit(steps[2]) else 1
                found.append((load, self.cut.rows(stencil) * seen_of(stencil.along, self._side), wide))
        return found

    @property
    def instructions(self) -> float:
        """Of the whole walk."""
        asked, wide = self.asked, self._width
        inside = {part.serial for root in self.roots for part in walk(root) if part.serial in self.cut.places}
        inside |= {
            below.serial for root in self.roots for p in walk(root) if p.serial in inside for below in walk(p)
        }
        once, own = self._others()
        result = instructions_of(self.roots, asked.schedule.fast_math, inside)
        result -= multiply_adds(self.roots, inside)
        # Steps before the first whole row make half of their results' parts.
        cost = self._side * wide * result * (self._down + self.cut.last / 2)
        for load, elements, together in self._reads():
            cost += self.steps * elements * _A_READ * wide / together
            cost += self.steps * elements * wide * (asked.element(load) < _REGISTER)
        cost += self.steps * _AGAIN * max(0.0, REGISTERS + self.held - _MOST_REGISTERS)
        cost += self.steps * _A_STEP + (1 + A_REQUEST / wide) * wide * len(once) + _BEGUN
        each = sum(1.0 if load.view.is_linear else wide for load in own)
        return cost + self._down * self._side * A_REQUEST * (len(self.roots) + each)

    @property
    def lines(self) -> float:
        """That a warp asks L1 for."""
        asked, wide = self.asked, self._width
        once, own = self._others()
        steps = sum(
            elements * wide / together * max(1.0, _LANES * together * asked.element(load) / _LINE)
            for load, elements, together in self._reads()
        )
        sizes = [asked.element_of(store.buffer) for store in self.kernel.stores]
        sizes += [asked.element(load) for load in own]
        result = sum(max(1.0, _LANES * wide * size / _LINE) for size in sizes)
        # A plane's weights lie together, apart from its neighbours': each vector of a lane is a line.
        shared = len(once) * min(_LANES, asked.at(self._one.beside) // wide)
        return self.steps * steps + self._down * self._side * result + shared

    @property
    def held(self) -> float:
        """Values of four bytes that a thread keeps."""
        asked, wide = self.asked, self._width
        once, _ = self._others()
        words = sum(elements * wide * asked.element(load) / _REGISTER for load, elements, _ in self._reads())
        waiting = self._side * wide * sum(map(len, self.cut.waiting))
        return words * (1 + asked.schedule.items) + waiting + len(once) * wide

    def again(self, stencil: Stencil) -> float:
        """Bytes that come from L2 once more: rows where pieces of a plane meet, and columns of two blocks."""
        asked, along = self.asked, stencil.along
        rows = (self._pieces - 1) * self.cut.last / max(1, asked.at(stencil.down.out))
        lanes = max(1, asked.at(stencil.beside) // self._width)
        columns = max(1, asked.schedule.threads // lanes) * self._side
        beyond = max(0, along.extent - along.stride) / (columns * along.stride)
        return sum(asked.read(load) * (rows + beyond) for load in _loads(stencil))


def _loads(stencil: Stencil) -> list[Load]:
    return [leaf for leaf in leaves(stencil.source) if isinstance(leaf, Load)]
