"""Named phases on a machine that is lent for minutes: each alone on the card, in its limit, receipts kept.

Owns starting and ending phases, waiting for a quiet card, what is known of each (``session.json``), and the
one archive that is refreshed after every phase. What phases there are is in gpu_phases.py; what they measure
is theirs. A phase writes into a folder of its own, again under another name when it is tried again, so that
nothing is overwritten and all of it can be taken together.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from workbench.compile.cache import cache_folder  # noqa: E402
from workbench.workers.keeping import end, kept  # noqa: E402

MARK = "WORKBENCH_GPU_SESSION"
"""Names the session in the environment of all that it starts: what has it, was started here."""
ARCHIVE = "on_the_gpu.tgz"
NOT_PACKED = (ARCHIVE, "grid.tgz", "opened", "extensions")
"""Archives of receipts that lie beside them, what was copied here to begin with, and what was built:
KernelBench's evaluation of 40 solutions leaves 200 MB of extensions."""
QUIET_S = 20.0
"""Longest wait for an empty card and steady clocks."""
LEAST_SHARE = 0.6
"""Of what a phase is expected to take: with less it is not begun, unless it goes on where it was cut off."""
LEAST_S = 45.0
"""Seconds that are worth while for one that goes on."""
State = Literal["ok", "failed", "cut off", "no time", "nothing to do"]


@dataclass(frozen=True)
class Turn:
    """One try of a phase: its folder, the seconds it may take, the folders of earlier tries."""

    out: Path
    seconds: float
    earlier: tuple[Path, ...] = ()
    dry: bool = False
    ops: tuple[str, ...] = ()
    """What the person wants measured, in this order; empty for all."""


@dataclass(frozen=True)
class Phase:
    """A program that measures or judges; ``command`` gives None where nothing is left, or all is missing."""

    name: str
    expected_s: float
    limit_s: float
    command: Callable[[Turn], Sequence[str] | None]
    timed: bool = True
    """Its times count, so it comes before those that only judge."""
    goes_on: bool = False
    """Tried again, it leaves out what earlier tries have done."""

    @property
    def least_s(self) -> float:
        """With less time it is not begun."""
        return LEAST_S if self.goes_on else min(LEAST_SHARE * self.expected_s, self.limit_s)


@dataclass(frozen=True)
class Row:
    """What became of a phase."""

    phase: str
    state: State
    seconds: float
    note: str = ""

    def line(self) -> str:
        """For the end of the run."""
        return f"{self.phase:<16}{self.state:<15}{self.seconds:7.1f} s  {self.note}".rstrip()


class GpuSession:
    """Phases one after the other in a work folder; ``receipts`` gets the archive."""

    def __init__(self, work: Path, receipts: Path, dry: bool = False, ops: Sequence[str] = ()) -> None:
        self.work, self.receipts, self.dry, self.ops = work, receipts, dry, tuple(ops)
        self.token = f"{os.getpid()}-{time.time_ns()}"
        self._state = work / "session.json"
        work.mkdir(parents=True, exist_ok=True)
        receipts.mkdir(parents=True, exist_ok=True)

    def run(self, phases: Iterable[Phase], seconds: float, resume: bool = False) -> list[Row]:
        """All phases, those whose times count first; what was ok before is left out with ``resume``."""
        give_up = time.monotonic() + seconds
        before = self.known()
        rows = []
        for phase in sorted(phases, key=lambda one: not one.timed):
            if resume and before.get(phase.name) == "ok":
                continue
            rows.append(self._one(phase, give_up - time.monotonic()))
            self._note(rows[-1])
            print(f"==== {rows[-1].line()}", flush=True)
            self.pack()
        return rows

    def known(self) -> dict[str, State]:
        """What became of each phase when it was last tried."""
        rows = json.loads(self._state.read_text()) if self._state.is_file() else []
        return {row["phase"]: row["state"] for row in rows}

    def _note(self, row: Row) -> None:
        rows = json.loads(self._state.read_text()) if self._state.is_file() else []
        fresh = self._state.with_suffix(".new")
        fresh.write_text(json.dumps([*rows, asdict(row)], indent=1) + "\n")
        fresh.replace(self._state)

    def _one(self, phase: Phase, left_s: float) -> Row:
        limit = min(phase.limit_s, left_s)
        if limit < phase.least_s:
            return Row(phase.name, "no time", 0.0, f"{max(left_s, 0.0):.0f} s left")
        earlier = self.tries(phase.name)
        out = self.work / (f"{phase.name}-{len(earlier) + 1}" if earlier else phase.name)
        command = phase.command(Turn(out, limit, earlier, self.dry, self.ops))
        if command is None:
            return Row(phase.name, "nothing to do", 0.0)
        unquiet = quiet_card() if phase.timed and not self.dry else ""
        out.mkdir(exist_ok=True)
        print(f"==== {phase.name} (at most {limit:.0f} s, {out / 'log.txt'})", flush=True)
        row = self._tried(phase, list(command), out, limit)
        if row.state == "ok" and phase.goes_on and not self.dry:
            rest = phase.command(Turn(out, limit, (*earlier, out), ops=self.ops))
            row = row if rest is None else replace(row, state="cut off", note="more to do")
        return replace(row, note="; ".join(filter(None, (row.note, unquiet))))

    def tries(self, name: str) -> tuple[Path, ...]:
        """Folders of a phase's tries so far, oldest first."""
        found = [self.work / name]
        while found[-1].is_dir():
            found.append(self.work / f"{name}-{len(found) + 1}")
        return tuple(found[:-1])

    def _tried(self, phase: Phase, command: list[str], out: Path, limit_s: float) -> Row:
        own = {"WORKBENCH_RECEIPTS": str(out), "WORKBENCH_PARTS": str(out / "parts"), MARK: self.token}
        tools = f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin"  # compute-sanitizer is often there only
        modules = ":".join(
            filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
        )  # nothing is installed there
        environment = os.environ | own | {"PYTHONUNBUFFERED": "1", "PATH": tools, "PYTHONPATH": modules}
        (out / "parts").mkdir()
        started = time.monotonic()
        state: State = "cut off"
        with (out / "log.txt").open("wb") as log:
            process = subprocess.Popen(
                kept(command), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=environment, cwd=ROOT, start_new_session=True,
            )  # fmt: skip
            try:
                state = "failed" if process.wait(limit_s) else "ok"
            except subprocess.TimeoutExpired:
                _forget_half_made_choices()
            finally:
                end(process)
                ended = end_strays(self.token)
        seconds = time.monotonic() - started
        notes = [f"{len(ended)} strays ended"] if ended else []
        notes += [_last_line(out / "log.txt")] if state == "failed" else []
        return Row(phase.name, state, round(seconds, 1), "; ".join(filter(None, notes)))

    def pack(self) -> None:
        """All there is so far as one file; a reader never sees half of it."""
        fresh = self.receipts / f".{ARCHIVE}.new"
        with tarfile.open(fresh, "w:gz") as tar:
            tar.add(self.work, "on_the_gpu", filter=lambda one: None if _apart(one.name) else one)
        fresh.replace(self.receipts / ARCHIVE)

    def unpack(self, archive: Path) -> None:
        """Go on, on a fresh machine, from what an earlier one packed."""
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                member.name = member.name.partition("/")[2]
                if member.name:
                    tar.extract(member, self.work, filter="data")


def _apart(name: str) -> bool:
    return name.rpartition("/")[2] in NOT_PACKED


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:160] if lines else ""


def _forget_half_made_choices() -> None:
    """What torch chose among compiled kernels and was cut off while writing down would be read as chosen."""
    for choice in (cache_folder() / "inductor").rglob("*.best_config"):
        choice.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------ a quiet card


def end_strays(token: str) -> list[int]:
    """End what this session started and what has left its process group; the numbers of the processes.

    Only processes with the session's mark in their environment, so never anybody else's.
    """
    mark, ended = f"{MARK}={token}".encode(), []
    for place in Path("/proc").glob("[0-9]*"):
        pid = int(place.name)
        with suppress(OSError):
            if pid != os.getpid() and mark in (place / "environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
                ended.append(pid)
    return ended


def quiet_card(wait_s: float = QUIET_S, look: Callable[[str], str] | None = None) -> str:
    """Wait until nobody is on the card and its clock stands still; what is still wrong with it, in words."""
    asked = look or nvidia_smi
    give_up, last, same = time.monotonic() + wait_s, "", 0
    while True:
        users = asked("--query-compute-apps=pid,name").split("\n")
        busy, _, clock = asked("--query-gpu=utilization.gpu,clocks.sm").partition(",")
        users = [user for user in users if user.strip()]
        same = same + 1 if clock == last and not users and busy.strip() in ("", "0") else 0
        last = clock
        if same >= 2:
            return ""
        if time.monotonic() > give_up:
            return f"the card is not quiet: {', '.join(users) or 'nobody on it'}, {busy}% busy,{clock} MHz"
        time.sleep(min(0.5, wait_s))


def nvidia_smi(query: str) -> str:
    """What the driver's tool says; nothing where there is none."""
    try:
        command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
