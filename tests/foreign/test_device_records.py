"""What CUPTI tells of a call, with a module in its place that says what it is told to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from workbench.foreign.device_records import Ran, demangled, recorded, trace
from workbench.foreign.provenance import device_time
from workbench.foreign.values import Provenance
from workbench.referee.clock.gpu import CLOSE

MANGLED = "_Z11row_softmaxPKfPfi"


class Kind(IntEnum):
    MEMCPY = 1
    MEMSET = 2
    CONCURRENT_KERNEL = 10


class Cupti(ModuleType):
    """Hands its records over when it is flushed, those of enabled kinds and one more that nobody wants."""

    ActivityKind = Kind

    def __init__(self) -> None:
        super().__init__("cupti.cupti")
        self.enabled: set[int] = set()
        self.pending: list[Any] = []

    def activity_register_callbacks(self, room: Callable[[], Any], take: Callable[[Any], None]) -> None:
        self.room, self.take = room, take

    def activity_enable(self, kind: int) -> None:
        self.enabled.add(kind)

    def activity_disable(self, kind: int) -> None:
        self.enabled.remove(kind)

    def activity_flush_all(self, flag: int) -> None:
        self.take([*self.pending, SimpleNamespace(kind=99)])
        self.pending = []

    def launch(self, kind: Kind, name: str, start: int, end: int, value: int = 0) -> None:
        if kind in self.enabled:
            found = SimpleNamespace(kind=kind, name=name, start=start, end=end, graph_node_id=0, value=value)
            self.pending.append(found)


@pytest.fixture
def cupti(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cupti]:
    pretended = Cupti()
    monkeypatch.setitem(sys.modules, "cupti", ModuleType("cupti"))
    monkeypatch.setitem(sys.modules, "cupti.cupti", pretended)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    trace.cache_clear()
    yield pretended
    trace.cache_clear()


def test_kernels_copies_and_their_durations(cupti: Cupti) -> None:
    def call() -> None:
        cupti.launch(Kind.CONCURRENT_KERNEL, MANGLED, 1000, 4000)
        cupti.launch(Kind.MEMCPY, "", 5000, 5500)

    ran, why = recorded(call)
    kernel = Ran("row_softmax(float const*, float*, int)", 3.0, 1000, 4000)
    assert (ran, why) == ([kernel, Ran("Memcpy", 0.5, 5000, 5500)], "")
    assert not cupti.enabled
    told = device_time(ran, why, ["row_softmax"])
    assert told["clock"] == "device" and told["launches"] == 2
    assert told["own_kernels"] == ["row_softmax(float const*, float*, int)"]


def test_the_mark_is_told_from_other_memory_sets(cupti: Cupti) -> None:
    def call() -> None:
        cupti.launch(Kind.MEMSET, "", 1000, 2000)
        cupti.launch(Kind.MEMSET, "", 3000, 4000, CLOSE)

    ran, _ = recorded(call)
    assert [(one.name, one.mark) for one in ran] == [("Memset", False), ("Memset", True)]


def test_what_a_call_raises_is_raised_and_recording_ends(cupti: Cupti) -> None:
    with pytest.raises(ZeroDivisionError):
        recorded(lambda: 1 / 0)
    assert not cupti.enabled


def test_no_records_is_said_not_taken_for_no_kernels(cupti: Cupti) -> None:
    ran, why = recorded(lambda: None)
    assert (ran, why) == ([], "CUPTI gave no records")
    told = device_time(ran, why, ["row_softmax"])
    assert told["clock"] == "blind"
    assert Provenance(clock="blind", why_blind=why).sentence == (
        "which kernels ran is not known: CUPTI gave no records"
    )


def test_without_cupti_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupti.cupti", None)
    trace.cache_clear()
    ran, why = recorded(lambda: None)
    trace.cache_clear()
    assert ran == [] and "cupti-python is not installed" in why


def test_names_that_are_not_mangled_stay() -> None:
    assert demangled("triton_per_fused_0") == "triton_per_fused_0"
    assert demangled("_Znot a name") == "_Znot a name"
