"""How the plan language says no: a reason first, then the place in the person's file.

Owns ``Refused`` (a reason without a place, raised by the pure parts) and the making of a located
``Diagnostic`` from it. Never decides what is refused.
"""

from __future__ import annotations

import re

from workbench.errors import PlanError
from workbench.model import Diagnostic

Where = tuple[str | int, ...]
"""Path to the argument at fault: its name, then indices into a literal tuple or dict."""

_MOST_CHARS = 400
"""Of a message: it may quote names of the person's, which have any length."""
_LINE_END = re.compile(r"\r\n|\r|\n")


class Refused(Exception):
    """What is wrong, in one sentence; the interpreter adds the line. Never reaches a caller of ``plan``."""

    def __init__(self, message: str, at: Where = ()) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


def split_lines(source: str) -> tuple[str, ...]:
    """Lines as Python's parser counts them, so that its line numbers fit."""
    return tuple(_LINE_END.split(source))


def diagnostic(lines: tuple[str, ...], line: int, column: int, message: str) -> Diagnostic:
    """An error at a 1-based line and column of the ``.cu`` file; column 0 means the whole line."""
    line = min(max(line, 1), len(lines))
    if len(message) > _MOST_CHARS:
        message = message[:_MOST_CHARS] + " ..."
    text = _printable(lines[line - 1])
    caret = text
    if 0 < column <= len(text) + 1:
        # Tabs are kept, so that the caret stands right whatever a tab's width is.
        caret = f"{text}\n{''.join(c if c == chr(9) else ' ' for c in text[: column - 1])}^"
    return Diagnostic(line=line, column=max(column, 0), message=_printable(message), caret=caret)


def _printable(text: str) -> str:
    """The text without lone surrogates, which no file or browser takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def plan_error(lines: tuple[str, ...], line: int, column: int, message: str) -> PlanError:
    """A ``PlanError`` with one located message."""
    return PlanError((diagnostic(lines, line, column, message),))
