"""How many bytes the steps of a program read and write under a schedule, at one assignment of sizes.

Owns the counting that estimate.py makes a time of: what is stored, what is read once, what is in L2 already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.model import DTYPE_BYTES, Target
from workbench.playbook.analysis import reach
from workbench.playbook.analysis.row_passes import RowSpace
from workbench.playbook.ir.expr import Load, leaves
from workbench.playbook.ir.program import Kernel, Program, Store
from workbench.playbook.ir.sizes import Size, product
from workbench.playbook.schedules.schedule import Schedule, width_over

_L2_USABLE = 0.8


@dataclass(frozen=True)
class Asked:
    """A program, a schedule, a card and sizes; what comes of them in bytes."""

    program: Program
    schedule: Schedule
    target: Target
    sizes: Mapping[str, int]
    declared: Sequence[Mapping[str, int]]
    """The sizes that kernels are written for; ``sizes`` may be others."""
    as_written: bool = False
    """For old receipts: single passes stay as the vector has them, and no row is peeled."""
    _elements: dict[str, int] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Of buffers that were asked for before: each kernel of a loop asks again."""

    def at(self, size: Size) -> int:
        """A size as a number."""
        return size.at(self.sizes)

    def bytes_of(self, name: str) -> float:
        """Of a whole buffer."""
        return float(self._elements_of(name) * self.element_of(name))

    def _elements_of(self, name: str) -> int:
        if name not in self._elements:
            self._elements[name] = self.at(product(self.program.buffers[name].shape))
        return self._elements[name]

    def stored(self, stores: Iterable[Store]) -> float:
        """Bytes that these write."""
        return float(
            sum(self.at(s.view.size) * DTYPE_BYTES[self.program.buffers[s.buffer].dtype] for s in stores)
        )

    def is_recent(self, load: Load) -> bool:
        """True for what a step of this plan wrote and L2 still holds."""
        made = self.program.buffers[load.buffer].role != "argument"
        return made and self.bytes_of(load.buffer) <= 0.5 * self.target.l2_bytes

    def from_memory(self, loads: list[Load]) -> tuple[float, float]:
        """Bytes from DRAM and from L2."""
        near: list[Load] = []
        far: list[Load] = []
        for load in loads:
            (near if self.is_recent(load) else far).append(load)
        return self.read_once(far), self.read_once(near)

    def width(self, columns: Size) -> int:
        """Elements of a vector that so many columns divide into; 1 where they do not."""
        return width_over(self.schedule.width, self.at(columns))

    def swept_away(self, space: RowSpace, kernel: Kernel, rounds: int) -> float:
        """Bytes that all rows share and that come from memory again each round, where a round sweeps L2.

        A layer norm of 16 rows of 16.8 MB, with weights of 33.6 MB, takes 330 us on an H200 with its rows one
        after the other, and 224 in two launches that have all rows go along the weights.
        """
        loads = space.column_loads([store.value for store in kernel.stores])
        same = [load for load in loads if space.places(load)[0].is_constant]
        shared = self.read_once(same)
        moved = self.read_once(load for load in loads if load not in same) + self.stored(kernel.stores)
        fits = shared + moved / rounds <= _L2_USABLE * self.target.l2_bytes
        return 0.0 if fits else shared * (rounds - 1)

    def read(self, load: Load) -> float:
        """Bytes that are asked for; an element that several threads want, once for each axis it varies on."""
        touched = 1
        for axis in load.view.axes:
            touched *= 1 if axis.stride.is_zero else self.at(axis.size)
        if any(not leaf.view.is_constant for index, _ in load.lookups for leaf in leaves(index)):
            touched = max(touched, min(self.at(load.view.size), self._elements_of(load.buffer)))
        return float(touched * self.element(load))

    def element(self, load: Load) -> int:
        """Bytes of an element."""
        return self.element_of(load.buffer)

    def element_of(self, name: str) -> int:
        """Bytes of an element of a buffer."""
        return DTYPE_BYTES[self.program.buffers[name].dtype]

    def read_once(self, loads: Iterable[Load]) -> float:
        """Bytes of memory behind the loads: the windows of a pool overlap, and L1 serves what they share."""
        by_buffer: dict[str, tuple[float, float]] = {}
        loads = list(loads)
        beside = Counter((load.buffer, load.view.axes) for load in loads)
        for load in loads:
            part, most = by_buffer.get(load.buffer, (0.0, 1.0))
            apart = reach.sectors_over_least(load.view, self.sizes)
            if beside[load.buffer, load.view.axes] >= apart:  # others read what lies between
                apart = 1.0
            far = apart if apart >= reach.APART else 1.0
            by_buffer[load.buffer] = (part + self.read(load) * apart, max(most, far))
        return sum(min(part, self.bytes_of(name) * most) for name, (part, most) in by_buffer.items())
