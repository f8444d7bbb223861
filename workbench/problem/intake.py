"""Opens a problem: sends a capture to a worker and brings the ``Problem`` back.

Runs in the notebook process; never imports torch. What happens in the worker is opening.py's.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from workbench.errors import ProblemError
from workbench.model import Problem
from workbench.problem.capture import Capture
from workbench.workers import Died, Expired, Limits, Raised, Returned, torch_ready

LIMITS = Limits(wall_s=180, cpu_s=360, memory_bytes=8 * 2**30)


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

    payload = capture.model_dump_json().encode()
    result = torch_ready().call("workbench.problem.opening:open_in_child", payload, limits, hear)
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
