"""Profilers that are started before there is a kernel to look at: a start takes seconds, a look does not.

Owns the processes and their folders. A profiler that waits holds no GPU; it has the card to itself from
``go`` until it ends. Imports no torch and holds no CUDA.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from workbench.model import Profile
from workbench.profile.nsight import (
    TIMEOUT_S,
    NoCounters,
    own_kernels,
    profile_of,
    standby_line,
    surroundings,
    why_none,
)
from workbench.profile.raw_page import read_page
from workbench.profile.request import GO, LOADED, REQUEST, ProfileRequest
from workbench.workers.keeping import end, kept

Alone = Callable[[], AbstractContextManager[None]]
"""Gives the card to the caller for the time of a ``with``."""
POLL_S = 0.01


class Standby:
    """One profiler, for one kernel; close it."""

    def __init__(self, command: Callable[[Path, int], list[str]] = standby_line) -> None:
        """Start it. Raises ``NoCounters`` when there is no profiler, or it cannot be started."""
        self._folder = Path(tempfile.mkdtemp(prefix="workbench-profile-"))
        try:
            with (self._folder / "output").open("wb") as out, (self._folder / "errors").open("wb") as errors:
                self._process = subprocess.Popen(
                    kept(command(self._folder, os.getpid())),
                    env=surroundings(),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=errors,
                    start_new_session=True,
                )
        except (OSError, NoCounters) as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            if isinstance(error, NoCounters):
                raise
            raise NoCounters(f"Nsight Compute cannot be started: {error.strerror or error}") from error

    def look(self, request: ProfileRequest, alone: Alone, timeout_s: float = TIMEOUT_S) -> Profile:
        """Counters of one call of a kernel's plan. Raises ``NoCounters`` with the reason there are none."""
        give_up = time.monotonic() + timeout_s
        draft = self._folder / "request.new"
        draft.write_text(request.model_dump_json(), encoding="utf-8")
        draft.rename(self._folder / REQUEST)
        while not (self._folder / LOADED).exists() and self._process.poll() is None:
            if time.monotonic() > give_up:
                raise NoCounters(f"Nsight Compute did not end within {timeout_s:g} s")
            time.sleep(POLL_S)
        with alone():
            (self._folder / GO).touch()
            try:
                code = self._process.wait(max(give_up - time.monotonic(), POLL_S))
            except subprocess.TimeoutExpired:
                self.close()  # before anybody else has the card
                raise NoCounters(f"Nsight Compute did not end within {timeout_s:g} s") from None
        said = self._said("output")
        kernels = own_kernels(request.source, read_page(said))
        if not kernels:
            raise NoCounters(why_none(said + self._said("errors"), code))
        return profile_of(request, kernels)

    def _said(self, where: str) -> str:
        return (self._folder / where).read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        """End it, with the program it watches; idempotent."""
        end(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)


class Profilers:
    """A look at a kernel, with the next profiler started behind each. Thread-safe."""

    def __init__(self, start: Callable[[], Standby] = Standby) -> None:
        self._start = start
        self._next: Standby | None = None
        self._lock = threading.Lock()
        self._closed = False

    def begin(self) -> None:
        """Have one ready; where none can be had, the next look says why."""
        with self._lock, suppress(NoCounters):
            if self._next is None and not self._closed:
                self._next = self._start()

    def look(self, request: ProfileRequest, alone: Alone) -> Profile:
        """See ``Standby.look``; starts a profiler where none waits."""
        self.begin()
        with self._lock:
            if self._closed:
                raise NoCounters("the device is closed")
            standby, self._next = self._next, None
        standby = standby or self._start()
        try:
            return standby.look(request, alone)
        finally:
            standby.close()
            self.begin()

    def close(self) -> None:
        """End the one that waits, and start no other; idempotent."""
        with self._lock:
            self._closed = True
            standby, self._next = self._next, None
        if standby is not None:
            standby.close()
