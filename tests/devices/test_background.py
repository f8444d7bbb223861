"""Slow baselines wait for quiet, come once, and stop when told."""

from __future__ import annotations

import threading

from softmax_problem import PROBLEM

from workbench.devices.background import IdleTimes
from workbench.errors import DeviceError
from workbench.model import Case, Problem

SECOND = PROBLEM.model_copy(update={"name": "other"})
PATIENCE_S = 300.0


class Timer:
    """Records what is timed; ``until`` tells when so many are done."""

    def __init__(self, fails: bool = False) -> None:
        self.seen: list[tuple[str, str]] = []
        self.fails = fails
        self._done = threading.Condition()

    def __call__(self, problem: Problem, case: Case) -> None:
        with self._done:
            self.seen.append((problem.name, case.label))
            self._done.notify_all()
        if self.fails:
            raise DeviceError("the GPU is gone")

    def until(self, count: int) -> bool:
        with self._done:
            return self._done.wait_for(lambda: len(self.seen) >= count, PATIENCE_S)


def test_every_case_of_a_problem_is_timed_once() -> None:
    timer = Timer()
    idle = IdleTimes(timer, quiet_s=0.0)
    for _ in range(3):
        idle.ask(PROBLEM, lambda: iter(PROBLEM.cases))
    assert timer.until(2)
    idle.ask(SECOND, lambda: iter(SECOND.cases[:1]))
    assert timer.until(3)
    assert timer.seen == [*(("softmax", c.label) for c in PROBLEM.cases), ("other", PROBLEM.cases[0].label)]
    idle.close()


def test_a_problem_is_complete_once_after_its_last_case() -> None:
    timer, over = Timer(fails=True), threading.Event()
    complete: list[tuple[str, int]] = []

    def note(problem: Problem) -> None:
        complete.append((problem.name, len(timer.seen)))
        if len(complete) == 2:
            over.set()

    idle = IdleTimes(timer, note, quiet_s=0.0)
    with idle.occupied():
        idle.ask(PROBLEM, lambda: iter(PROBLEM.cases))
        idle.ask(SECOND, lambda: iter(()))
        assert idle.wanted == (1, 2)
    assert over.wait(PATIENCE_S)
    assert complete == [("softmax", 2), ("other", 2)], "also where cases failed, or were known already"
    idle.close()


def test_nothing_is_timed_while_somebody_wants_the_gpu() -> None:
    timer = Timer()
    idle = IdleTimes(timer, quiet_s=0.0)
    with idle.occupied():
        with idle.occupied():
            idle.ask(PROBLEM, lambda: iter(PROBLEM.cases))
        assert timer.seen == []
    assert timer.until(2)
    idle.close()


def test_a_failure_is_kept_and_the_next_case_is_tried() -> None:
    timer = Timer(fails=True)
    idle = IdleTimes(timer, quiet_s=0.0)
    idle.ask(PROBLEM, lambda: iter(PROBLEM.cases))
    assert timer.until(2)
    idle.ask(SECOND, lambda: iter(SECOND.cases[:1]))
    assert timer.until(3)
    assert idle.failed[0] == "softmax 4096x32768: the GPU is gone"
    idle.close()


def test_a_closed_device_begins_nothing() -> None:
    timer = Timer()
    idle = IdleTimes(timer, quiet_s=60.0)
    idle.ask(PROBLEM, lambda: iter(PROBLEM.cases))
    idle.close()
    idle.ask(SECOND, lambda: iter(SECOND.cases))
    assert timer.seen == []


def test_who_wants_the_gpu_is_counted() -> None:
    idle = IdleTimes(Timer(), quiet_s=1e6)
    assert idle.wanted == (0, 0)
    with idle.occupied(), idle.occupied():
        idle.ask(PROBLEM, lambda: iter(PROBLEM.cases))
        assert idle.wanted == (2, len(PROBLEM.cases))
    assert idle.wanted[0] == 0
    idle.close()
