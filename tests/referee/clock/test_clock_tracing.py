"""The recorder over a pretended CUPTI: what is a mark, what is work, and when records are asked for."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.referee.clock import tracing
from workbench.referee.clock.gpu import CLOSE, OPEN, STEP
from workbench.referee.clock.lane import Record, spans_of

KINDS = SimpleNamespace(CONCURRENT_KERNEL=10, MEMCPY=1, MEMSET=2)


class Cupti:
    """Holds activities back until they are asked for, as buffers do that are not full."""

    ActivityKind = KINDS

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.enabled: list[int] = []
        self._take: Callable[[list[Any]], None] = lambda activities: None

    def activity_register_callbacks(self, more: Any, take: Callable[[list[Any]], None]) -> None:
        self._take = take

    def activity_enable(self, kind: int) -> None:
        self.enabled.append(kind)

    def activity_disable(self, kind: int) -> None:
        self.enabled.remove(kind)

    def activity_flush_all(self, forced: int) -> None:
        assert forced
        held, self.held = self.held, []
        self._take(held)

    def saw(self, start: int, end: int, **fields: Any) -> None:
        """One activity, a kernel unless said otherwise."""
        given = {"kind": KINDS.CONCURRENT_KERNEL, "graph_node_id": 0, **fields}
        self.held.append(SimpleNamespace(start=start, end=end, **given))

    def memset(self, start: int, value: int, node: int = 0) -> None:
        self.saw(start, start + 1, kind=KINDS.MEMSET, value=value, graph_node_id=node)


def test_marks_are_told_from_a_contestants_own_memory_sets_and_from_those_of_a_graph() -> None:
    """A node of a graph has been issued by nobody now, whatever value its record shows."""
    cupti = Cupti()
    trace = tracing.CuptiTrace(cupti, tracing._record)
    with trace.running():
        cupti.memset(10, OPEN)
        cupti.memset(20, 0)  # torch's own
        cupti.memset(22, OPEN, node=7)
        cupti.saw(30, 130, graph_node_id=8)
        cupti.memset(140, CLOSE, node=9)
        cupti.saw(150, 160, kind=99)  # of a kind that nobody asked for
        cupti.memset(200, CLOSE)
        records = trace.collect()
    assert [record.role for record in records] == ["open", "work", "work", "work", "work", "close"]
    (span,) = spans_of(records)
    assert span.activities == 4 and span.time_us == pytest.approx((141 - 20) * 1e-3)
    assert cupti.enabled == []


def test_what_came_before_a_trace_was_opened_is_not_in_it() -> None:
    cupti = Cupti()
    trace = tracing.CuptiTrace(cupti, tracing._record)
    cupti.memset(5, OPEN)
    with trace.running():
        cupti.saw(10, 20)
        assert trace.collect() == [Record(10, 20, "work")]
        assert trace.collect() == []


def test_the_trace_is_closed_when_a_call_fails() -> None:
    cupti = Cupti()
    with pytest.raises(ZeroDivisionError), tracing.CuptiTrace(cupti, tracing._record).running():
        raise ZeroDivisionError
    assert cupti.enabled == []


def test_a_mark_between_steps_is_none_of_a_sample() -> None:
    cupti = Cupti()
    trace = tracing.CuptiTrace(cupti, tracing._record)
    with trace.running():
        cupti.memset(10, OPEN)
        cupti.saw(20, 30)
        cupti.memset(40, STEP)
        cupti.memset(50, CLOSE)
        records = trace.collect()
    assert [record.role for record in records] == ["open", "work", "step", "close"]
