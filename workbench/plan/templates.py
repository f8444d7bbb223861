"""Bracketed lists of C++: template heads, template arguments, parameter lists.

Owns the splitting of token lists. Never looks a name up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Words = tuple[str, ...]

_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """One parameter of a template head."""

    name: str
    kind: str
    """``typename`` for a type; otherwise the value's type, such as ``int``."""
    default: Words = ()
    pack: bool = False


_LONGEST = 4_000
"""Tokens between two brackets; what is longer counts as never closed, so that scanning stays linear."""


def closing_of(texts: Sequence[str], opening: int) -> int | None:
    """Index of the bracket that closes the one at ``opening``; None when it never closes."""
    opener, closer, depth = texts[opening], _CLOSING[texts[opening]], 0
    for i in range(opening, min(len(texts), opening + _LONGEST)):
        depth += (texts[i] == opener) - (texts[i] == closer)
        if depth == 0:
            return i
    return None


def split_list(texts: Words) -> list[Words]:
    """Split at the commas that stand in no bracket; ``<`` counts as one only before any ``=``."""
    parts: list[list[str]] = [[]]
    depth, assigned = 0, False
    for text in texts:
        if text == "," and depth == 0:
            parts.append([])
            assigned = False
            continue
        assigned = assigned or (text == "=" and depth == 0)
        if text in ("(", "[", "{") or (text == "<" and not assigned):
            depth += 1
        elif text in (")", "]", "}") or (text == ">" and not assigned):
            depth -= 1
        parts[-1].append(text)
    return [tuple(p) for p in parts] if texts else []


def template_end(head: Sequence[str]) -> int:
    """Index after the ``>`` of the last template head; 0 without one."""
    for i in range(len(head) - 2, -1, -1):
        if head[i] == "template" and head[i + 1] == "<":
            return (closing_of(head, i + 1) or len(head) - 1) + 1
    return 0


def template_parameters(head: Sequence[str]) -> tuple[TemplateParameter, ...] | None:
    """Parameters of the template head among the tokens before a declaration; None without one."""
    end = template_end(head)
    if not end:
        return None
    start = max(i for i in range(end) if head[i] == "template" and head[i + 1 : i + 2] == ["<"])
    return tuple(_template_parameter(part) for part in split_template(tuple(head[start + 2 : end - 1])))


def split_template(texts: Words) -> list[Words]:
    """Split a template head or argument list at its commas; ``<`` always opens a bracket."""
    parts: list[list[str]] = [[]]
    depth = 0
    for text in texts:
        depth += (text in "([{<") - (text in ")]}>")
        if text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(text)
    return [tuple(p) for p in parts] if texts else []


def _template_parameter(part: Words) -> TemplateParameter:
    default: Words = ()
    if "=" in part:
        at = part.index("=")
        part, default = part[:at], part[at + 1 :]
    pack = "..." in part
    named = len(part) > 1 and part[-1].isidentifier()
    name = part[-1] if named else ""
    kind = " ".join(p for p in (part[:-1] if named else part) if p != "...")
    return TemplateParameter(name, "typename" if kind == "class" else kind, default, pack)
