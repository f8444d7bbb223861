"""CUPTI's activity records of kernels, copies and memory sets. Runs in a child with a GPU, never in a parent.

Records are asked for once a process and kept coming only while a trace is open: the first records after a
long idle time have been seen missing (pytorch issue 192021), which is why the clock counts its marks. What a
record is read as is the caller's; loading CUPTI starts threads, so nothing may fork afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Generic, TypeVar

from workbench.referee.clock.gpu import CLOSE, OPEN, STEP
from workbench.referee.clock.lane import Record, Role

BUFFER_BYTES = 8 * 2**20
MARKS: dict[int, Role] = {OPEN: "open", CLOSE: "close", STEP: "step"}
FORCED = 1
"""Also hand over buffers that are not full."""
T = TypeVar("T")
Read = Callable[[Any, bool], T]
"""An activity, and whether it is a memory set, as what the caller keeps of it."""


class CuptiTrace(Generic[T]):
    """The process's trace; there can be only one at a time."""

    def __init__(self, cupti: Any, read: Read[T]) -> None:
        self._cupti, self._read = cupti, read
        kind = cupti.ActivityKind
        self._kinds = (kind.CONCURRENT_KERNEL, kind.MEMCPY, kind.MEMSET)
        self._memset = int(kind.MEMSET)
        self._wanted = frozenset(map(int, self._kinds))
        self._records: list[T] = []
        cupti.activity_register_callbacks(self._more_room, self._take)

    def collect(self) -> list[T]:
        """Records since the last call."""
        self._cupti.activity_flush_all(FORCED)
        records, self._records = self._records, []
        return records

    @contextmanager
    def running(self) -> Iterator[CuptiTrace[T]]:
        """Records are made in here."""
        begun = []
        try:
            for kind in self._kinds:
                self._cupti.activity_enable(kind)
                begun.append(kind)
            self.collect()
            yield self
        finally:
            for kind in begun:
                self._cupti.activity_disable(kind)

    def _more_room(self) -> tuple[int, int]:
        return BUFFER_BYTES, 0

    def _take(self, activities: list[Any]) -> None:
        for one in activities:
            if int(one.kind) in self._wanted:
                self._records.append(self._read(one, int(one.kind) == self._memset))


def traced(read: Read[T]) -> tuple[CuptiTrace[T] | None, str]:
    """A trace whose records are what ``read`` makes of them, or None and the reason."""
    try:
        return CuptiTrace(import_module("cupti.cupti"), read), ""
    except ImportError as error:
        return None, f"cupti-python is not installed or does not load ({error})"
    except Exception as error:  # cuptiError, whose class lies in the module that may not load
        return None, f"CUPTI refused: {error}"


@cache
def open_trace() -> tuple[CuptiTrace[Record] | None, str]:
    """The clock's trace, or None and the reason."""
    return traced(_record)


def _record(activity: Any, is_memset: bool) -> Record:
    role: Role = "work"
    # A mark is issued by the clock, never by a contestant's graph.
    if is_memset and not activity.graph_node_id:
        role = MARKS.get(activity.value, "work")
    return Record(activity.start, activity.end, role)
