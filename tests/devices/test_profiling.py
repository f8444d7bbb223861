"""Who is profiled, when, and what is remembered of a card that refuses its counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from softmax_problem import PROBLEM, RIGHT

from workbench.devices.profiling import NOT_ASKED, Profiling
from workbench.model import H100, CaseTime, Digest, Evaluation, Kernel, Mismatch, Outcome, Passed, Profile
from workbench.profile import ProfileRequest
from workbench.profile.nsight import NoCounters
from workbench.profile.standby import Alone

KERNEL = Kernel(source=RIGHT)
LABEL = PROBLEM.cases[1].label


def evaluation(outcome: Outcome | None = None) -> Evaluation:
    """Timed at the second declared case only."""
    time = CaseTime(case=LABEL, source="measured", time_us=10.0, floor_us=5.0)
    return Evaluation(
        kernel=Digest("k"), device="cuda", target=H100.name, outcome=outcome or Passed(), times=(time,)
    )


class Card:
    """Counts looks, and that each was alone on the card."""

    def __init__(self, answer: Callable[[ProfileRequest], Profile]) -> None:
        self.busy = False
        self.looks: list[ProfileRequest] = []
        self._answer = answer

    @contextmanager
    def alone(self) -> Iterator[None]:
        self.busy = True
        yield
        self.busy = False

    def look(self, request: ProfileRequest, alone: Alone) -> Profile:
        with alone():
            assert self.busy
            self.looks.append(request)
            return self._answer(request)


def counted(request: ProfileRequest) -> Profile:
    return Profile(case=request.case.label, source="counters", sentences=("68% of DRAM peak.",))


def refused(request: ProfileRequest) -> Profile:
    raise NoCounters("the driver refuses its counters to this user (ERR_NVGPUCTRPERM)")


def test_every_correct_kernel_has_an_estimate() -> None:
    profiling = Profiling(0, Card(counted).alone)
    found = profiling.with_estimate(PROBLEM, KERNEL, evaluation(), H100).profile
    assert found is not None
    assert (found.source, found.case) == ("estimate", LABEL)
    assert NOT_ASKED in found.note
    wrong = evaluation(Mismatch(case=LABEL, message="all of it"))
    assert profiling.with_estimate(PROBLEM, KERNEL, wrong, H100) == wrong
    assert profiling.with_estimate(PROBLEM, Kernel(source="oops"), evaluation(), H100) == evaluation()


def test_counters_are_read_once_a_kernel_alone_on_the_card() -> None:
    card = Card(counted)
    profiling = Profiling(3, card.alone, card.look)
    for _ in range(2):
        found = profiling.closer(PROBLEM, KERNEL, evaluation(), H100)
        assert found is not None and found.source == "counters"
    (request,) = card.looks
    assert (request.device, request.case.label, request.source) == (3, LABEL, RIGHT)


def test_a_card_that_refuses_is_not_asked_again_and_the_estimate_says_why() -> None:
    card = Card(refused)
    profiling = Profiling(0, card.alone, card.look)
    for _ in range(2):
        found = profiling.closer(PROBLEM, KERNEL, evaluation(), H100)
        assert found is not None and found.source == "estimate"
        assert "ERR_NVGPUCTRPERM" in found.note
    assert len(card.looks) == 1
    later = profiling.with_estimate(PROBLEM, KERNEL, evaluation(), H100).profile
    assert later is not None and "ERR_NVGPUCTRPERM" in later.note
