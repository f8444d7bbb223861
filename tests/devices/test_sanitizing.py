"""compute-sanitizer at leisure: a program of Python's stands in for the tool."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from softmax_problem import PROBLEM, RIGHT

from workbench.devices import sanitizing
from workbench.devices.sanitizing import Closed, Leisure, found_at_leisure
from workbench.errors import DeviceError
from workbench.model import H100, Kernel
from workbench.plan.parse import parse
from workbench.profile.sanitizer import NotLooked

KERNEL = Kernel(source=RIGHT)
CARD = (H100, 0)
PRINTING = [sys.executable, "-c", "print('ERROR SUMMARY: 0 errors')"]


def endless(mark: Path) -> list[str]:
    """A tool that says it has begun and never ends, but for the third time."""
    text = (
        f"import pathlib, time; p = pathlib.Path({str(mark)!r}); "
        "n = len(p.read_text()) if p.exists() else 0; "
        "p.write_text('x' * (n + 1)); print('begun', flush=True); time.sleep(0 if n == 2 else 600)"
    )
    return [sys.executable, "-c", text]


def words(*said: bool) -> Iterator[bool]:
    yield from said
    while True:
        yield False


def test_a_tool_runs_when_nobody_wants_the_card() -> None:
    asked = words(True, True, True)
    done = Leisure(lambda: next(asked), lambda: False, quiet_s=0.05).run(PRINTING)
    assert done.returncode == 0 and "0 errors" in done.stdout
    assert next(asked) is False


def test_a_tool_gives_way_and_begins_again(tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    told: list[int] = []

    def wanted() -> bool:
        """Once in each of the first two runs, as soon as they have begun."""
        runs = len(mark.read_text()) if mark.exists() else 0
        if runs in (1, 2) and runs not in told:
            told.append(runs)
            return True
        return False

    done = Leisure(wanted, lambda: False, quiet_s=0.05).run(endless(mark))
    assert done.returncode == 0 and mark.read_text() == "xxx" and told == [1, 2]


def test_what_never_gets_a_turn_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sanitizing, "TRIES", 1)
    mark = tmp_path / "begun"
    with pytest.raises(NotLooked, match="wanted all the time"):
        Leisure(mark.exists, lambda: False, quiet_s=0.0).run(endless(mark))


def test_a_closed_device_ends_it(tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    with pytest.raises(Closed):
        Leisure(lambda: False, mark.exists, quiet_s=0.0).run(endless(mark))


def found(monkeypatch: pytest.MonkeyPatch, output: str) -> str:
    def run(self: Leisure, command: list[str]) -> object:
        return sanitizing.subprocess.CompletedProcess(command, 0, stdout=output, stderr="")

    monkeypatch.setattr(sanitizing, "find_sanitizer", lambda: "compute-sanitizer")
    monkeypatch.setattr(Leisure, "run", run)
    leisure = Leisure(lambda: False, lambda: False)
    return asyncio.run(found_at_leisure(PROBLEM, KERNEL, CARD, leisure))


def test_what_is_found_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, "").endswith("found nothing at a few small sizes")
    name = parse(RIGHT).kernels.signatures[0].name
    report = (
        "WORKBENCH CASE 3x7\n========= Invalid __global__ write of size 4 bytes\n"
        f"=========     at {name}(float const*, float*)+0x160 in kernel.cu:12\n"
    )
    told = found(monkeypatch, report)
    assert told.startswith("compute-sanitizer found out of bounds at 3x7: line 12: Invalid __global__ write")


def test_without_the_tool_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise NotLooked("compute-sanitizer is not installed")

    monkeypatch.setattr(sanitizing, "find_sanitizer", nowhere)
    leisure = Leisure(lambda: False, lambda: False)
    told = asyncio.run(found_at_leisure(PROBLEM, KERNEL, CARD, leisure))
    assert told == "compute-sanitizer did not look: compute-sanitizer is not installed"


def test_a_closed_device_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizing, "find_sanitizer", lambda: "compute-sanitizer")
    leisure = Leisure(lambda: False, lambda: True)
    with pytest.raises(DeviceError, match="closed"):
        asyncio.run(found_at_leisure(PROBLEM, KERNEL, CARD, leisure))
