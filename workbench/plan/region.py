"""Where the plan comment stands in a ``.cu`` file.

Owns the rule for what counts as one: a block comment whose first line is the word ``plan`` alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from workbench.errors import PlanError
from workbench.plan.lexer import tokens
from workbench.plan.limits import PLAN_CHARS, SOURCE_CHARS
from workbench.plan.refusal import diagnostic, plan_error, split_lines

_OPENING = re.compile(r"/\*[ \t]*plan[ \t]*(?:\r\n|\r|\n|\*/|\Z)")
_NEARLY = re.compile(r"/[/*]+[\s*]*plan\b", re.IGNORECASE)
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Region:
    """The plan comment of a source."""

    body: str
    """Text between the opening line and ``*/``."""
    first_line: int
    """Line of ``/* plan``, from 1."""
    last_line: int
    """Line of ``*/``."""


def plan_region(source: str) -> tuple[int, int]:
    """First and last line of the plan comment, from 1, both included. Raises ``PlanError``."""
    region = find_region(source)
    return region.first_line, region.last_line


def find_region(source: str) -> Region:
    """The one plan comment. Raises ``PlanError`` for none, two, an unclosed or an oversized one."""
    if len(source) > SOURCE_CHARS:
        raise plan_error(("",), 1, 0, f"the file has {len(source)} characters; {SOURCE_CHARS} are allowed")
    comments = [t for t in tokens(source) if t.kind == "comment"]
    found = [t for t in comments if _OPENING.match(t.text)]
    lines = split_lines(source)
    if not found:
        near = next((t for t in comments if _NEARLY.match(t.text)), None)
        raise _missing(source, lines, None if near is None else near.start)
    starts = [_line_of(source, t.start) for t in found]
    if len(found) > 1:
        message = f"a second plan comment; the first is on line {starts[0]}, keep one of them"
        raise PlanError(tuple(diagnostic(lines, line, 1, message) for line in starts[1:]))
    text, line = found[0].text, starts[0]
    if len(text) < 4 or not text.endswith("*/"):
        raise plan_error(lines, line, 1, "the plan comment is never closed: write */ after the plan")
    if len(text) > PLAN_CHARS:
        raise plan_error(lines, line, 1, f"the plan has {len(text)} characters; {PLAN_CHARS} are allowed")
    opening = _OPENING.match(text)
    body = text[opening.end() : -2] if opening else ""
    return Region(body, line, line + _count(text))


def _missing(source: str, lines: tuple[str, ...], near: int | None) -> PlanError:
    """No plan comment; point at a comment that was meant as one."""
    if near is None and (bare := _bare_plan(source)) is not None:
        message = "the plan belongs in a comment: write /* plan on a line above it, and */ below"
        return plan_error(lines, _line_of(source, bare), 1, message)
    if near is None:
        message = "no plan comment: add /* plan, a new line, def plan(...): ..., and */"
        return plan_error(lines, 1, 0, message)
    message = 'not a plan comment: it must open with "/* plan", the word plan alone on that line'
    return plan_error(lines, _line_of(source, near), 1, message)


def _bare_plan(source: str) -> int | None:
    """Where ``def plan(`` stands outside a comment; None when it does not."""
    found = re.search(r"^[ \t]*(def[ \t]+plan[ \t]*\()", source, re.MULTILINE)
    return found.start(1) if found else None


def _line_of(source: str, offset: int) -> int:
    return 1 + _count(source[:offset])


def _count(text: str) -> int:
    return len(_LINE_END.findall(text))
