"""A profiler that was started beforehand: what it is told, when it has the card, and how it ends."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from softmax_problem import PROBLEM, RIGHT

from workbench.model import H100
from workbench.profile import child
from workbench.profile.child import Loaded, attend
from workbench.profile.nsight import NoCounters, kernel_names, standby_line
from workbench.profile.request import GO, LOADED, REQUEST, ProfileRequest
from workbench.profile.standby import Profilers, Standby

ASKED = ProfileRequest(problem=PROBLEM, source=RIGHT, case=PROBLEM.cases[0], target=H100)
PAGE = (Path(__file__).parent / "raw_page.csv").read_text()
(OURS,) = kernel_names(RIGHT)
PRETENDED = f"""
import sys, time
from pathlib import Path
folder, way = Path(sys.argv[1]), sys.argv[2]
def until(name):
    while not (folder / name).exists():
        time.sleep(0.005)
until({REQUEST!r})
if way == "dies":
    sys.exit("==ERROR== ERR_NVGPUCTRPERM - no permission")
(folder / {LOADED!r}).touch()
until({GO!r})
if way == "hangs":
    time.sleep(600)
print((folder / "page").read_text())
"""
"""Stands for ncu and the program it watches."""


def pretended(way: str) -> Callable[[], Standby]:
    """Starts a profiler whose page is about the kernel, and one of a library."""

    def command(folder: Path, owner: int) -> list[str]:
        assert owner == os.getpid()
        (folder / "page").write_text(PAGE.replace("softmax_partial", "library").replace("softmax_rows", OURS))
        return [sys.executable, "-c", PRETENDED, str(folder), way]

    return lambda: Standby(command)


def test_a_look_has_the_card_only_while_the_kernel_runs() -> None:
    standby = pretended("well")()
    events: list[str] = []

    @contextmanager
    def alone() -> Iterator[None]:
        assert (standby._folder / LOADED).exists() and not (standby._folder / GO).exists()
        yield
        events.append("over" if standby._process.poll() is not None else "still running")

    profile = standby.look(ASKED, alone)
    standby.close()
    assert events == ["over"] and not standby._folder.exists()
    assert (profile.source, profile.case) == ("counters", PROBLEM.cases[0].label)
    assert [one.kernel for one in profile.kernels] == [OURS]


@pytest.mark.parametrize(("way", "why"), [("dies", "ERR_NVGPUCTRPERM"), ("hangs", "did not end within")])
def test_a_look_that_fails_says_why_and_leaves_nothing(way: str, why: str) -> None:
    standby = pretended(way)()
    with pytest.raises(NoCounters, match=why):
        standby.look(ASKED, nullcontext, timeout_s=1.5)
    standby.close()
    assert standby._process.poll() is not None and not standby._folder.exists()


def test_the_next_one_is_started_behind_each_look() -> None:
    started: list[Standby] = []

    def start() -> Standby:
        started.append(pretended("well")())
        return started[-1]

    profilers = Profilers(start)
    profilers.begin()
    profilers.begin()
    assert len(started) == 1
    assert profilers.look(ASKED, nullcontext).source == "counters"
    assert len(started) == 2
    profilers.close()
    assert all(one._process.poll() is not None for one in started)
    with pytest.raises(NoCounters, match="closed"):
        profilers.look(ASKED, nullcontext)
    assert len(started) == 2


def test_without_a_profiler_the_look_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def command(folder: Path, owner: int) -> list[str]:
        raise NoCounters("Nsight Compute (ncu) is not installed")

    profilers = Profilers(lambda: Standby(command))
    profilers.begin()
    with pytest.raises(NoCounters, match="not installed"):
        profilers.look(ASKED, nullcontext)
    assert list(tmp_path.iterdir()) == []


def test_the_command_names_no_kernel_but_folder_and_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.profile.nsight.find_ncu", lambda: "/bin/ncu")
    command = standby_line(Path("/there"), 7)
    assert "--kernel-name" not in command
    assert command[-4:] == ["-m", "workbench.profile.child", "/there", "7"]


# ------------------------------------------------------------------------------ the program it watches


def test_the_program_touches_the_gpu_only_after_go(tmp_path: Path) -> None:
    ran: list[Loaded] = []
    waiting = threading.Thread(target=attend, args=(tmp_path, os.getpid(), ran.append), daemon=True)
    waiting.start()
    (tmp_path / "new").write_text(ASKED.model_dump_json())
    (tmp_path / "new").rename(tmp_path / REQUEST)
    while not (tmp_path / LOADED).exists():
        assert waiting.is_alive()
    assert ran == []
    (tmp_path / GO).touch()
    waiting.join(20.0)
    (loaded,) = ran
    assert loaded.request == ASKED and len(loaded.plan.launches) == 1
    assert [image.cubin[:4] for image in loaded.images] == [b"\x7fELF"]


def test_the_program_ends_with_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "POLL_S", 0.001)
    ran: list[Loaded] = []
    attend(tmp_path, 2**22 + 1, ran.append)  # no process has such a number
    attend(tmp_path / "gone", os.getpid(), ran.append)
    assert ran == []
