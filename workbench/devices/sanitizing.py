"""compute-sanitizer while nobody wants the GPU: a look that gives way at once and is taken up again.

Owns when a tool may run. What it prints is read by the profile package; what it means for a search is the
orchestrator's business. Holds no CUDA.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from workbench.errors import DeviceError
from workbench.model import Kernel, Problem, Target
from workbench.profile.sanitizer import TOOLS, NotLooked, Run, find_sanitizer, sanitized, surroundings
from workbench.workers.keeping import end, kept

QUIET_S = 3.0
"""How long nobody must have wanted the GPU."""
POLL_S = 0.1
TIMEOUT_S = 120.0
TRIES = 20
"""How often one tool is begun again before it is left."""

Wanted = Callable[[], bool]
"""True while somebody else wants the card."""


class Closed(Exception):
    """The device is being closed."""


class Leisure:
    """Runs a tool's command line when the card is free, and ends it when that changes."""

    def __init__(self, wanted: Wanted, closed: Callable[[], bool], quiet_s: float = QUIET_S) -> None:
        self._wanted, self._is_closed, self._quiet_s = wanted, closed, quiet_s
        self._left = threading.Event()

    def leave(self) -> None:
        """Nobody waits for the answer any more: end what runs."""
        self._left.set()

    def _closed(self) -> bool:
        return self._left.is_set() or self._is_closed()

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """As ``subprocess.run``. Raises ``NotLooked``, and ``Closed``."""
        for _ in range(TRIES):
            self._await_quiet()
            if (done := self._tried(command)) is not None:
                return done
        raise NotLooked("the GPU was wanted all the time")

    def _await_quiet(self) -> None:
        since = time.monotonic()
        while True:
            if self._closed():
                raise Closed
            if self._wanted():
                since = time.monotonic()
            elif time.monotonic() - since >= self._quiet_s:
                return
            time.sleep(min(POLL_S, self._quiet_s or POLL_S))

    def _tried(self, command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
        """None when somebody wanted the card meanwhile."""
        try:
            process = subprocess.Popen(
                kept(command), env=surroundings(), start_new_session=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
        except OSError as error:
            raise NotLooked(f"compute-sanitizer cannot be started: {error.strerror or error}") from error
        give_up = time.monotonic() + TIMEOUT_S
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    said, _ = process.communicate(timeout=POLL_S)
                    return subprocess.CompletedProcess(command, process.returncode, stdout=said, stderr="")
                if self._closed():
                    raise Closed
                if self._wanted():
                    return None
                if time.monotonic() > give_up:
                    raise NotLooked(f"compute-sanitizer did not end within {TIMEOUT_S:g} s")
        finally:
            if process.poll() is None:
                end(process)
                process.communicate()


def finding(problem: Problem, kernel: Kernel, card: tuple[Target, int], run: Run) -> str:
    """What the tools say of a kernel, in a sentence; blocks until they have been at leisure to look.

    Raises ``Closed``.
    """
    target, index = card
    try:
        find_sanitizer()
        hazard = sanitized(problem, kernel, target, index, run)
    except NotLooked as why:
        return f"compute-sanitizer did not look: {why}"
    if hazard is None:
        return f"compute-sanitizer ({', '.join(TOOLS)}) found nothing at a few small sizes"
    return f"compute-sanitizer found {hazard.hazard.replace('_', ' ')} at {hazard.case}: {hazard.message}"


async def found_at_leisure(
    problem: Problem, kernel: Kernel, card: tuple[Target, int], leisure: Leisure
) -> str:
    """``finding`` on a thread of its own, which ends with whoever waits. Raises ``DeviceError``."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def tell(told: str | DeviceError) -> None:
        if not answer.done():
            answer.set_exception(told) if isinstance(told, DeviceError) else answer.set_result(told)

    def work() -> None:
        told: str | DeviceError
        try:
            told = finding(problem, kernel, card, leisure.run)
        except Closed:
            told = DeviceError("the cuda device is closed; open another session")
        except DeviceError as error:
            told = error
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            loop.call_soon_threadsafe(tell, told)

    threading.Thread(target=work, name="compute-sanitizer", daemon=True).start()
    try:
        return await answer
    finally:
        leisure.leave()
