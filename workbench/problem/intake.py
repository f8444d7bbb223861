"""Opens a problem: sends a capture to a worker and brings the ``Problem`` back.

Runs in the notebook process; never imports torch. What happens in the worker is opening.py's. Owns the worker
that waits, warm, for the next problem.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress

from workbench.errors import DeviceError, ProblemError
from workbench.model import Problem
from workbench.problem.capture import Capture
from workbench.workers import Conversation, Died, Expired, Limits, Raised, Result, Returned, torch_ready

LIMITS = Limits(wall_s=900, cpu_s=360, memory_bytes=8 * 2**30)
FUNCTION = "workbench.problem.opening:open_in_child"
WARM = b""
"""Asks the worker to import what opening needs, and nothing else."""

_lock = threading.Lock()
_waiting: Conversation | None = None


def warm_up() -> None:
    """Have a worker import what opening a problem needs, most of its seconds, for the next problem.

    Blocks while it does. A failure is told where the worker would have been used.
    """
    global _waiting
    with suppress(DeviceError):
        with _lock:
            if _waiting is not None:
                return  # also one that died: whoever takes it sees that
            _waiting = talk = torch_ready().open(FUNCTION, LIMITS)
        talk.ask(WARM)


def open_problem(
    capture: Capture, on_note: Callable[[str], None] | None = None, limits: Limits = LIMITS
) -> Problem:
    """Run, trace and try the person's code in a worker; ``on_note`` hears what it is busy with.

    Blocks for a few seconds. Raises ``ProblemError`` with one or two lines when the reference, its
    inputs or its shapes cannot be worked with.
    """
    busy_with = ["starting"]

    def hear(message: bytes) -> None:
        busy_with.append(message.decode(errors="replace"))
        if on_note is not None:
            on_note(busy_with[-1])

    result = _asked(capture.model_dump_json().encode(), limits, hear)
    match result:
        case Returned(payload=answer):
            told = json.loads(answer)
            if "error" in told:
                raise ProblemError(told["error"])
            return Problem.model_validate(told["problem"])
        case Expired(limit_s=seconds):
            raise ProblemError(
                f"opening {capture.name} took more than {seconds:g} s and was stopped while {busy_with[-1]}. "
                "Is there an endless loop in it? Otherwise give it less to do: smaller inputs, fewer layers."
            )
        case Died(message=message):
            raise ProblemError(f"the process that ran {capture.name} died: {message}")
        case Raised(type=kind, message=message):
            raise ProblemError(f"opening {capture.name} failed: {kind}: {message}")


def _asked(payload: bytes, limits: Limits, hear: Callable[[bytes], None]) -> Result:
    """By the worker that waits, which is used up with it, or by a fresh one."""
    talk = _taken() if limits == LIMITS else None
    if talk is None:
        return torch_ready().call(FUNCTION, payload, limits, hear)
    try:
        return talk.ask(payload, limits.wall_s, hear)
    finally:
        talk.close()


def _taken() -> Conversation | None:
    """The worker that waits, also while it still imports; None where there is none."""
    global _waiting
    with _lock:
        talk, _waiting = _waiting, None
    if talk is not None and talk.over:
        talk.close()
        return None
    return talk
