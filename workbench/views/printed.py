"""What a kernel printed, cut to what a person reads. Pure."""

from __future__ import annotations

from typing import Any

from workbench.model import Printed
from workbench.views.phrases import plural

Json = dict[str, Any]
MOST_LINES = 20
MOST_CHARACTERS = 200
"""Of one line."""


def printed_json(printed: Printed | None) -> Json | None:
    """The first lines, and in ``words`` where they come from and what is left out; None when nothing is."""
    if printed is None:
        return None
    lines = printed.text.splitlines()
    shown = [line[:MOST_CHARACTERS] for line in lines[:MOST_LINES]]
    calls = plural(printed.calls, "call")
    where = f"printf in the check at {printed.case} on {printed.inputs} inputs"
    whole = shown == lines and printed.calls <= len(lines)
    count = calls if whole else f"the first {plural(len(shown), 'line')} of {calls}"
    return {"words": f"{where}, {count}", "lines": shown, "calls": printed.calls}


def printed_lines(found: Json | None) -> list[str]:
    """The same for a terminal."""
    if found is None:
        return []
    return [f"{found['words']}:", *(f"    {line}" for line in found["lines"])]
