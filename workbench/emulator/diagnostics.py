"""g++'s messages as diagnostics at the person's own lines.

The generated file names the kernel's text ``kernel.cu`` with a ``#line`` directive; an error in one of
the emulator's headers is moved to the line of the kernel that caused it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workbench.model import Diagnostic

SOURCE_NAME = "kernel.cu"
ENTRY_NAME = "entry_points.cpp"

_MESSAGE = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:(?P<column>\d+):)?\s+(?P<rest>.*)$")
_UNINITIALISED = re.compile(
    r"^warning: '(?P<name>[\w.\[\]]+)' (?P<how>is|may be) used uninitialized.*\[-W(maybe-)?uninitialized\]$"
)
_DECLARED = re.compile(r"^note: '(?P<name>[\w.\[\]]+)' was declared here$")
_ERROR = re.compile(r"^(?:fatal )?error: (?P<text>.*)$")


def parse(stderr: str, source: str, kernels: Sequence[str]) -> tuple[Diagnostic, ...]:
    """Errors in order of appearance; at least one, whatever the compiler printed."""
    found: list[Diagnostic] = []
    where = (0, 0)  # last place in the kernel that a message mentioned
    for text in stderr.splitlines():
        match = _MESSAGE.match(text)
        if not match:
            continue
        place = int(match["line"]), int(match["column"] or 0)
        if match["file"] == SOURCE_NAME:
            where = place
        error = _ERROR.match(match["rest"])
        if error is None:
            continue
        message = error["text"]
        if match["file"] == ENTRY_NAME:
            message = f"{kernels[min(place[0], len(kernels)) - 1]}: {message}"
            found.append(Diagnostic(line=where[0] or 1, message=message))
            continue
        found.append(
            Diagnostic(line=max(where[0], 1), column=where[1], message=message, caret=caret(source, *where))
        )
        where = (0, 0)
    return tuple(found) or (Diagnostic(line=1, message=_last_words(stderr)),)


def remarks(stderr: str) -> tuple[Diagnostic, ...]:
    """Variables of the kernel that g++ saw used before they have a value, each where it is declared."""
    found: dict[str, Diagnostic] = {}
    for text in stderr.splitlines():
        match = _MESSAGE.match(text)
        if match is None or match["file"] != SOURCE_NAME:
            continue
        line, column = int(match["line"]), int(match["column"] or 0)
        if said := _UNINITIALISED.match(match["rest"]):
            message = f"{said['name']} {said['how']} used before it has a value"
            remark = Diagnostic(severity="warning", line=line, column=column, message=message)
            found.setdefault(said["name"], remark)
        elif (declared := _DECLARED.match(match["rest"])) and (known := found.get(declared["name"])):
            found[declared["name"]] = known.model_copy(update={"line": line, "column": column})
    return tuple(found.values())


def caret(source: str, line: int, column: int) -> str:
    """The source line and, under it, a caret; empty when there is no such line."""
    lines = source.splitlines()
    if not 1 <= line <= len(lines):
        return ""
    return f"{lines[line - 1]}\n{' ' * max(column - 1, 0)}^"


def _last_words(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    return lines[-1] if lines else "the C++ compiler failed without a message"
