"""Kernel name expressions such as ``softmax_rows<256, float>``: names, whole numbers, and no code.

Owns what may stand in one, so that a plan's string never carries C++ of its own into the compiler.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from workbench.plan.refusal import Refused
from workbench.plan.templates import Words, split_template

_WORD = r"[A-Za-z_]\w*"
_NUMBER = r"(?:0[xX][0-9a-fA-F]+|\d+)(?:[uU]?[lL]{0,2}|[lL]{1,2}[uU])"
_TOKEN = re.compile(rf"\s*({_WORD}(?!\w)|{_NUMBER}(?![\w.])|::|[<>,-])", re.ASCII)
_MOST_CHARS = 400


@dataclass(frozen=True, slots=True)
class KernelName:
    """A parsed name expression."""

    name: str
    """Without template arguments: ``ns::softmax``."""
    arguments: tuple[Words, ...] | None
    """Tokens of each template argument; None without angle brackets."""
    text: str
    """The expression with normal spacing, so that equal ones are one instance."""


def kernel_name(text: object) -> KernelName:
    """Parse a name expression. Raises ``Refused``."""
    if not isinstance(text, str):
        raise Refused('kernel must be a string such as "softmax<256>"', ("kernel",))
    found = _split(text)
    end = found.index("<") if "<" in found else len(found)
    name, rest = found[:end], found[end:]
    if not _is_qualified(name) or not _closes_once(rest):
        raise _not_a_name(text)
    arguments = None if not rest else tuple(split_template(tuple(rest[1:-1])))
    if arguments is not None and not all(_is_argument(a) for a in arguments):
        raise _not_a_name(text)
    return KernelName("".join(name), arguments, join(tuple(found)))


def _split(text: str) -> list[str]:
    found, at = [], 0
    stripped = text.rstrip()
    while at < len(stripped):
        match = _TOKEN.match(stripped, at)
        if match is None or len(text) > _MOST_CHARS:
            raise _not_a_name(text)
        found.append(match.group(1))
        at = match.end()
    return found


def _not_a_name(text: str) -> Refused:
    message = (
        f"{text[:60]!r} is not a kernel's name: write name<arguments>, the arguments being whole numbers, "
        "types or names"
    )
    return Refused(message, ("kernel",))


def _is_qualified(parts: list[str]) -> bool:
    """``a``, ``a::b``."""
    return len(parts) % 2 == 1 and all(
        part == "::" if i % 2 else part.isidentifier() for i, part in enumerate(parts)
    )


def _closes_once(parts: list[str]) -> bool:
    """True for nothing, and for ``< ... >`` whose first bracket is closed by the last token."""
    depth = 0
    for i, part in enumerate(parts):
        depth += (part == "<") - (part == ">")
        if depth <= 0 and i < len(parts) - 1:
            return False
    return depth == 0


def _is_argument(parts: Words) -> bool:
    """A number, maybe negative, or words of a type."""
    if not parts:
        return False
    for before, part in zip(("", *parts), parts, strict=False):
        if part == "-" and (before not in ("", "<", ",") or len(parts) < 2):
            return False
        if before == "-" and not part[0].isdigit():
            return False
        if part in ("<", ",") and before in ("", "<", ","):
            return False
        if part[0].isdigit() and before not in ("", "<", ",", "-"):
            return False
    return parts[-1] not in ("::", "<", ",", "-")


def join(parts: Words) -> str:
    """Tokens as C++ text: a space between two words and after a comma."""
    text = ""
    for part in parts:
        between = (
            bool(text) and (text[-1].isalnum() or text[-1] == "_") and (part[0].isalnum() or part[0] == "_")
        )
        text += (" " if between or text.endswith(",") else "") + part
    return text
