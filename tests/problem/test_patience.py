"""Code that does not come back is told of while it runs, and ended with its line."""

import time

import pytest

from workbench.problem import patience
from workbench.problem.patience import Patience, TookTooLong

# The suite's own clock uses the same signal as the module under test.
pytestmark = pytest.mark.timeout(300, method="thread")
ENDLESS = compile("\nn = 0\nwhile True:\n    n += 1\n", "<cell>", "exec")
SLEEPING = compile("try:\n    time.sleep(30)\nexcept Exception:\n    kept = True\n", "<cell>", "exec")


def test_an_endless_loop_is_told_of_and_ended_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "MOST_CPU_S", 0.3)
    heard: list[str] = []
    with pytest.raises(TookTooLong, match=r"^line [34]: still running .* an endless loop\?\n"):  # noqa: SIM117
        with Patience(heard.append, tick_s=0.05) as patient:
            patient.tell("reading the cell")
            exec(ENDLESS, {})
    assert heard[0] == "reading the cell" and heard[1].startswith("reading the cell, 0 s so far (at line ")


def test_no_except_clause_of_the_person_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "MOST_WALL_S", 0.1)
    names = {"time": time}
    with pytest.raises(TookTooLong), Patience(lambda _: None, tick_s=0.05) as patient:
        patient.tell("running the reference")
        exec(SLEEPING, names)
    assert "kept" not in names


def test_what_others_do_in_the_same_stage_is_only_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """As drawing the weights of a large layer a dozen times."""
    monkeypatch.setattr(patience, "is_persons", "<cell>".__eq__)  # and not this file
    monkeypatch.setattr(patience, "MOST_CPU_S", 0.1)
    monkeypatch.setattr(patience, "MOST_WALL_S", 0.1)
    heard: list[str] = []
    with Patience(heard.append, tick_s=0.05) as patient:
        patient.tell("running the reference")
        _work(0.5)
    assert len(heard) > 2


def test_other_stages_are_only_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "MOST_WALL_S", 0.0)
    heard: list[str] = []
    with Patience(heard.append, tick_s=0.05) as patient:
        patient.tell("tracing the reference")
        _work(0.3)
    assert len(heard) > 1


def _work(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
