"""CUPTI's activity records of kernels, copies and memory sets. Runs in a worker child with a GPU.

Records are asked for once a process and kept coming only while a trace is open: the first records after a
long idle time have been seen missing (pytorch issue 192021), which is why marks are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from workbench.referee.clock.gpu import CLOSE, OPEN
from workbench.referee.clock.lane import Record, Role

BUFFER_BYTES = 8 * 2**20
FORCED = 1
"""Also hand over buffers that are not full."""


class CuptiTrace:
    """The process's trace; there can be only one."""

    def __init__(self, cupti: Any) -> None:
        self._cupti = cupti
        kind = cupti.ActivityKind
        self._kinds = (kind.CONCURRENT_KERNEL, kind.MEMCPY, kind.MEMSET)
        self._memset = int(kind.MEMSET)
        self._wanted = frozenset(map(int, self._kinds))
        self._records: list[Record] = []
        cupti.activity_register_callbacks(self._more_room, self._take)

    def collect(self) -> list[Record]:
        """Records since the last call."""
        self._cupti.activity_flush_all(FORCED)
        records, self._records = self._records, []
        return records

    @contextmanager
    def running(self) -> Iterator[CuptiTrace]:
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
                self._records.append(Record(one.start, one.end, self._role(one)))

    def _role(self, activity: Any) -> Role:
        if int(activity.kind) == self._memset:
            if activity.value == OPEN:
                return "open"
            if activity.value == CLOSE:
                return "close"
        return "work"


@cache
def open_trace() -> tuple[CuptiTrace | None, str]:
    """The trace, or None and the reason."""
    try:
        cupti = import_module("cupti.cupti")
        return CuptiTrace(cupti), ""
    except ImportError as error:
        return None, f"cupti-python is not installed or does not load ({error})"
    except Exception as error:  # cuptiError, whose class lies in the module that may not load
        return None, f"CUPTI refused: {error}"
