"""Whether a call's work is waited for, on a pretended card whose streams and host have their own clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

from workbench.foreign import stopwatch, unjoined
from workbench.foreign.device_records import Ran
from workbench.foreign.harness import glance
from workbench.foreign.protocol import Followed, Profiled
from workbench.foreign.timing import afterwards
from workbench.foreign.unjoined import Late, late_work
from workbench.foreign.verdicts import unjoined as verdict
from workbench.model import Suspect

ISSUE_US, BEGIN_US = 5.0, 1.0
"""What the host needs to queue something, and a stream to begin it."""


class Card:
    """Streams run what they are given, one after the other, once the host has said so; microseconds."""

    def __init__(self) -> None:
        self.host = 0.0
        self.free = {"current": 0.0, "side": 0.0}
        self.ran: list[Ran] = []
        self.losing = 0
        """So many marks get no record."""
        self.holds: list[float] = []

    def launch(self, stream: str, us: float, name: str = "softmax", mark: bool = False) -> None:
        self.host += ISSUE_US
        start = max(self.free[stream], self.host) + BEGIN_US
        self.free[stream] = start + us
        self.ran.append(Ran(name, us, int(1e3 * start), int(1e3 * (start + us)), mark))

    def wait_stream(self, stream: str, other: str) -> None:
        self.host += ISSUE_US
        self.free[stream] = max(self.free[stream], self.free[other])

    def join(self) -> None:
        self.host = max(self.host, *self.free.values())

    # ---- the caller's stream

    def hold_up(self, us: float) -> float:
        self.holds.append(us)
        self.launch("current", us, "spin")
        return self.free["current"]

    def held(self, since: float) -> bool:
        return self.host < since

    def mark(self) -> None:
        self.launch("current", 1.0, "Memset", mark=True)
        if self.losing:
            self.losing -= 1
            self.ran.pop()

    # ---- the trace

    @contextmanager
    def running(self) -> Iterator[Card]:
        yield self

    def collect(self) -> list[Ran]:
        found, self.ran = self.ran, []
        return found


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    pretended = Card()
    monkeypatch.setattr(unjoined, "trace", lambda: (pretended, ""))
    monkeypatch.setattr(unjoined, "NOW", lambda: pretended.host * 1e-6)
    return pretended


def plain(card: Card) -> None:
    card.launch("current", 100)


def joined(card: Card) -> None:
    card.wait_stream("side", "current")
    card.launch("side", 100)
    card.launch("current", 3)
    card.wait_stream("current", "side")


def waits_for_the_device(card: Card) -> None:
    card.wait_stream("side", "current")
    card.launch("side", 100)
    card.join()


def slow_host(card: Card) -> None:
    card.host += 4000
    joined(card)


def nothing(card: Card) -> None:
    pass


@pytest.mark.parametrize("call", [plain, joined, waits_for_the_device, slow_host, nothing])
def test_what_is_waited_for_is_never_late(card: Card, call: Callable[[Card], None]) -> None:
    assert late_work(lambda: call(card), card) is None


@pytest.mark.parametrize("us", [6, 148, 5000])
@pytest.mark.parametrize("host_us", [0, 900, 4000, 20_000])
@pytest.mark.parametrize("own_us", [0, 2])
def test_what_is_not_waited_for_is_late_however_short_and_however_slow_the_host(
    card: Card, us: float, host_us: float, own_us: float
) -> None:
    def call() -> None:
        card.host += host_us
        card.wait_stream("side", "current")
        card.launch("side", us)
        if own_us:
            card.launch("current", own_us, "small")

    late = late_work(call, card)
    assert late is not None and late.name == "softmax"
    assert unjoined.NOISE_US < late.us <= us + BEGIN_US


def test_the_stream_is_held_up_for_longer_until_all_of_a_call_is_queued(card: Card) -> None:
    assert late_work(lambda: slow_host(card), card) is None
    assert len(card.holds) == 3 and card.holds[1] > 4000


def test_a_call_that_waits_for_the_device_is_not_tried_for_ever(card: Card) -> None:
    assert late_work(lambda: waits_for_the_device(card), card) is None
    assert len(card.holds) == unjoined.ATTEMPTS and max(card.holds) <= unjoined.LONGEST_US


def test_a_lost_mark_is_no_evidence_and_asked_for_again(card: Card) -> None:
    def call() -> None:
        card.wait_stream("side", "current")
        card.launch("side", 50)

    card.losing = 1
    assert late_work(call, card) is not None and len(card.holds) == 3
    card.losing = 9
    assert late_work(call, card) is None


def test_one_record_that_is_off_is_no_evidence(card: Card) -> None:
    def call() -> None:
        plain(card)
        if len(card.holds) == 1:
            last = card.ran.pop()
            card.ran.append(last._replace(end_ns=last.end_ns + 9000))

    assert late_work(call, card) is None and len(card.holds) == 3


def test_a_mark_of_the_call_s_own_hides_nothing(card: Card) -> None:
    def call() -> None:
        card.launch("current", 1.0, "Memset", mark=True)
        card.wait_stream("side", "current")
        card.launch("side", 50)

    assert late_work(call, card) is not None


def test_without_cupti_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unjoined, "trace", lambda: (None, "cupti-python is not installed"))
    assert late_work(lambda: None, Card()) is None


def test_late_work_is_suspect_and_says_what_to_call() -> None:
    assert verdict(Profiled()) is None and verdict(Followed()) is None
    found = verdict(Profiled(late="cunn_SoftMaxForward", late_us=148.2))
    assert isinstance(found, Suspect)
    assert "cunn_SoftMaxForward ended 148 us after" in found.message and "wait_stream(side)" in found.message


def test_a_late_record_goes_into_the_answer() -> None:
    from workbench.foreign.provenance import followed

    assert followed(None) == {}
    assert Followed.model_validate(followed(Late("k", 3.5))) == Followed(late="k", late_us=3.5)


def test_what_is_compared_is_what_the_stream_s_next_kernel_sees() -> None:
    output, room = torch.ones(2, 3), torch.zeros(2, 3)
    (seen,) = glance([output], [room])
    output.fill_(7)
    assert seen is room and torch.equal(seen, torch.ones(2, 3))
    for other in (torch.ones(3, 2), torch.ones(2, 3).double(), torch.ones(2, 3).to_sparse(), "no tensor"):
        assert glance([other], [room])[0] is other
    assert glance([output], []) == [output]


class Lane:
    """A device that takes a while to say that it has nothing to do."""

    def __init__(self, waits_us: list[float]) -> None:
        self.waits_us, self.clock_us = waits_us, 0.0

    def busy(self, time_us: float) -> None:
        pass

    def stamp(self) -> Lane:
        return self

    def synchronize(self) -> None:
        pass

    def wait(self) -> None:
        self.clock_us += self.waits_us.pop()


def test_what_an_idle_device_takes_to_join_is_not_counted_as_late(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = Lane([35.0] * (stopwatch.JOINS - 1) + [900.0])
    monkeypatch.setattr(stopwatch, "NOW", lambda: lane.clock_us * 1e-6)
    idle_us = stopwatch.idle_join_us(lane)
    assert idle_us == pytest.approx(35.0)
    assert stopwatch.beyond(25.0, idle_us) == stopwatch.beyond(40.0, idle_us) == 0.0
    assert stopwatch.beyond(183.0, idle_us) == pytest.approx(148.0)
    assert stopwatch.beyond(9.0, 4.0) == 0.0


def test_time_that_is_mostly_on_other_streams_is_odd() -> None:
    assert afterwards(0.0, 12.0) == "" and afterwards(60.0, 186.0) == ""
    assert "148 of its 149 us" in afterwards(148.0, 148.6)
