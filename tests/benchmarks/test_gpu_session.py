"""The driver of a GPU session: phases that hang, fail and are fine; the real ones as far as a CPU goes."""

from __future__ import annotations

import argparse
import fcntl
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import gpu_phases  # noqa: E402
import gpu_session  # noqa: E402
from gpu_session import GpuSession, Phase, Turn  # noqa: E402

FINE = "import os, pathlib; pathlib.Path(os.environ['WORKBENCH_RECEIPTS'], 'found.json').write_text('{}')"
FAILS = "import sys; print('so far'); sys.exit('no such thing')"
HANGS = """
import fcntl, os, sys, time
if os.fork() == 0:
    os.setsid()  # out of the group
    if os.fork() == 0:  # and out of the family
        held = open(sys.argv[1], "w")
        fcntl.flock(held, fcntl.LOCK_EX)
        print("held", flush=True)
    time.sleep(600)
time.sleep(600)
"""


def phase(name: str, program: str, *words: str, limit_s: float = 30.0, timed: bool = True) -> Phase:
    def command(turn: Turn) -> Sequence[str]:
        return [sys.executable, "-c", program, *words]

    return Phase(name, expected_s=1.0, limit_s=limit_s, command=command, timed=timed)


@pytest.fixture
def session(tmp_path: Path) -> GpuSession:
    return GpuSession(tmp_path / "work", tmp_path / "receipts", dry=True)


def packed(session: GpuSession) -> set[str]:
    with tarfile.open(session.receipts / gpu_session.ARCHIVE) as tar:
        return {member.name for member in tar.getmembers() if member.isfile()}


@pytest.mark.slow
def test_one_that_hangs_and_one_that_fails_cost_the_third_nothing(
    session: GpuSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = tmp_path / "held"
    phases = [
        phase("hangs", HANGS, str(held), limit_s=5.0),
        phase("judges", FINE, timed=False),
        phase("fails", FAILS),
        phase("fine", FINE),
    ]
    rows = session.run(phases, seconds=60)
    assert [(row.phase, row.state) for row in rows] == [
        ("hangs", "cut off"), ("fails", "failed"), ("fine", "ok"), ("judges", "ok"),
    ]  # fmt: skip
    assert rows[1].note == "no such thing"
    assert (session.work / "hangs" / "log.txt").read_text() == "held\n"
    with held.open() as file:  # nobody has it any more
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert packed(session) >= {
        "on_the_gpu/fine/found.json",
        "on_the_gpu/hangs/log.txt",
        "on_the_gpu/session.json",
    }
    assert "==== fails           failed" in capsys.readouterr().out


def test_what_a_phase_built_is_not_packed(session: GpuSession) -> None:
    session.run([phase("builds", FINE)], seconds=60)
    built = session.work / "builds" / "extensions" / "one"
    built.mkdir(parents=True)
    (built / "a.so").touch()
    session.pack()
    assert not [name for name in packed(session) if "extensions" in name]
    assert "on_the_gpu/builds/log.txt" in packed(session)


def test_a_later_call_goes_on_and_writes_over_nothing(session: GpuSession) -> None:
    session.run([phase("fails", FAILS), phase("fine", FINE)], seconds=60)
    assert session.known() == {"fails": "failed", "fine": "ok"}
    again = GpuSession(session.work, session.receipts, dry=True)
    rows = again.run([phase("fails", FINE), phase("fine", FAILS)], seconds=60, resume=True)
    assert [(row.phase, row.state) for row in rows] == [("fails", "ok")]
    assert packed(again) >= {"on_the_gpu/fails/log.txt", "on_the_gpu/fails-2/found.json"}
    assert again.known() == {"fails": "ok", "fine": "ok"}


def test_a_phase_finds_the_workbench_where_it_is_not_installed(
    session: GpuSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/tmp/site")
    session.run([phase("asks", "import os; print(os.environ['PYTHONPATH'])")], seconds=60)
    assert (session.work / "asks" / "log.txt").read_text() == f"{ROOT}:/tmp/site\n"


def test_on_a_fresh_machine_it_goes_on_from_the_archive(session: GpuSession, tmp_path: Path) -> None:
    session.run([phase("fine", FINE)], seconds=60)
    fresh = GpuSession(tmp_path / "elsewhere", tmp_path / "receipts2", dry=True)
    fresh.unpack(session.receipts / gpu_session.ARCHIVE)
    assert fresh.known() == {"fine": "ok"} and (fresh.work / "fine" / "found.json").is_file()
    assert fresh.run([phase("fine", FAILS)], seconds=60, resume=True) == []


def test_a_phase_that_cannot_be_done_in_the_time_left_is_not_begun(session: GpuSession) -> None:
    long = Phase("long", 100.0, 200.0, phase("x", FINE).command)
    rows = session.run([long], seconds=50)
    assert rows[0].state == "no time" and not (session.work / "long").exists()
    assert session.run([Phase("none", 1.0, 9.0, lambda turn: None)], 60)[0].state == "nothing to do"


def test_one_that_goes_on_is_done_when_it_has_no_command_left(tmp_path: Path) -> None:
    def command(turn: Turn) -> Sequence[str] | None:
        return [sys.executable, "-c", FINE] if len(turn.earlier) < 2 else None

    session = GpuSession(tmp_path / "work", tmp_path / "receipts")
    grows = Phase("grows", 60.0, 60.0, command, timed=False, goes_on=True)
    states = [session.run([grows], seconds=60, resume=True)[0] for _ in range(2)]
    assert [(row.state, row.note) for row in states] == [("cut off", "more to do"), ("ok", "")]


def test_only_what_bears_the_sessions_mark_is_ended() -> None:
    def sleeper(token: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, gpu_session.MARK: token}
        return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment)

    ours, others = sleeper("this"), sleeper("that")
    try:
        give_up = time.monotonic() + 20
        while not (ended := gpu_session.end_strays("this")) and time.monotonic() < give_up:
            time.sleep(0.02)  # it has not become the program yet
        assert ended == [ours.pid] and ours.wait(10) == -9 and others.poll() is None
    finally:
        for process in (ours, others):
            process.kill()
            process.communicate()


def answers(*looks: tuple[str, str]) -> Callable[[str], str]:
    """A driver's tool: users and clocks at each look, the last for ever."""
    left = [answer for look in looks for answer in look]
    return lambda query: left.pop(0) if len(left) > 2 else left[("gpu" in query) and "compute" not in query]


def test_a_card_is_quiet_when_it_is_empty_and_its_clock_stands() -> None:
    steady = [("", "0, 1980")] * 3
    assert gpu_session.quiet_card(5.0, answers(("7, python", "90, 1980"), ("", "0, 1500"), *steady)) == ""
    told = gpu_session.quiet_card(0.05, answers(("7, python", "90, 1980")))
    assert told == "the card is not quiet: 7, python, 90% busy, 1980 MHz"


@pytest.mark.parametrize("name", gpu_phases.PHASES)
def test_every_phase_has_a_command_with_and_without_a_card(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_phases, "KERNELBENCH", tmp_path / "theirs")
    monkeypatch.setattr(gpu_phases, "PUBLISHED", tmp_path / "published")
    one = gpu_phases.PHASES[name]
    assert one.least_s <= one.limit_s <= 600
    for dry in (True, False):
        command = one.command(Turn(tmp_path / f"{dry}", 200.0, (), dry))
        if command is None:  # needs what a person brings
            assert name in ("kernelbench", "published", "published-times", "two-gpus") and not dry
        else:
            assert all(isinstance(word, str) and "{" not in word for word in command)


def test_kernelbench_goes_on_from_the_newest_receipt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, earlier = tmp_path / "theirs", tmp_path / "kernelbench"
    monkeypatch.setattr(gpu_phases, "KERNELBENCH", theirs)
    (theirs / "opened").mkdir(parents=True)
    (theirs / "opened" / "one").write_text("1")
    (theirs / "first.json").write_text("first")
    command = gpu_phases.kernelbench(Turn(tmp_path / "a", 200.0))
    assert command is not None and command[command.index("--seconds") + 1] == "185"
    assert (tmp_path / "a" / "kernelbench.json").read_text() == "first"
    assert (tmp_path / "a" / "opened" / "one").read_text() == "1"
    earlier.mkdir()
    (earlier / "kernelbench.json").write_text("second")
    gpu_phases.kernelbench(Turn(tmp_path / "b", 200.0, (earlier,)))
    assert (tmp_path / "b" / "kernelbench.json").read_text() == "second"


def test_the_grid_leaves_out_what_earlier_tries_have() -> None:
    command = gpu_phases.grid(("a", "b"))
    assert "a,b" in (command(Turn(Path("x"), 100.0)) or ())
    found = {"a"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_phases, "judged_already", lambda folders: found)
        assert "b" in (command(Turn(Path("x"), 100.0)) or ())
        found.add("b")
        assert command(Turn(Path("x"), 100.0)) is None
        assert gpu_phases.grid(("a", "b"), "compile")(Turn(Path("x"), 100.0)) is not None
        assert "d,c" in (gpu_phases.grid()(Turn(Path("x"), 100.0, ops=("d", "c", "a"))) or ())


def test_a_file_may_ask_for_more(tmp_path: Path) -> None:
    path = tmp_path / "asked.txt"
    path.write_text('# remarks\n\nodd 40 60 vectors argmax "vector_width=1 chains=many" --only 8x8  # why\n')
    (odd,) = gpu_phases.asked(path).values()
    command = odd.command(Turn(tmp_path, 60.0))
    assert (odd.name, odd.expected_s, odd.limit_s) == ("odd", 40.0, 60.0) and command is not None
    assert command[2:] == ["argmax", "vector_width=1 chains=many", "--only", "8x8"]
    for wrong in ("odd", "odd 40 60 nowhere x", "odd 40 s vectors"):
        path.write_text(f"\n{wrong}\n")
        with pytest.raises(ValueError, match=r"asked\.txt, line 2 is not NAME SECONDS LIMIT SCRIPT"):
            gpu_phases.asked(path)


def test_a_phase_that_is_named_and_asked_for_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "asked.txt"
    path.write_text("first 10 20 vectors softmax\nsecond 10 20 vectors softmax\n")
    run: list[str] = []
    monkeypatch.setattr(
        GpuSession, "run", lambda self, phases, *rest: run.extend(one.name for one in phases) or []
    )
    monkeypatch.setenv("WORKBENCH_RECEIPTS", str(tmp_path / "receipts"))
    given = argparse.Namespace(
        phases=["second", "cheats", "cheats"], asked=path, work=tmp_path / "work", dry_run=True, ops="",
        archive=None, seconds=5.0, resume=False,
    )  # fmt: skip
    assert gpu_phases.run_phases(given) == 0
    assert run == ["second", "cheats", "first"]


@pytest.mark.slow
def test_the_program_lists_runs_dry_and_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    def said(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "WORKBENCH_RECEIPTS": str(tmp_path / "receipts")}
        command = [sys.executable, str(ROOT / "benchmarks" / "on_the_gpu.py"), *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    assert "figures         times     about  180 s" in said("--list").stdout
    unknown = said("figurs")
    assert unknown.returncode == 2 and unknown.stderr.startswith("no phase figurs; there are ")
    done = said("replay", "--dry-run", "--seconds", "60", "--work", str(tmp_path / "work"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("replay          ok ")
    assert (tmp_path / "receipts" / "on_the_gpu.tgz").is_file()
