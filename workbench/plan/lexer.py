"""CUDA text as tokens: enough C++ to tell code from comments, strings and directives.

Owns the token pattern. Never parses: signature.py and region.py give tokens their meaning.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

Kind = Literal["comment", "text", "char", "directive", "number", "word", "sign"]

_PATTERN = re.compile(
    r"""
      (?P<comment> /\*.*?(?:\*/|\Z) | //(?:\\\r?\n|[^\n])* | \\\r?\n )
    | (?P<text> (?:u8|[uUL])?R"(?P<fence>[^ ()\\\t\v\f\n"]{0,16})\(.*?(?:\)(?P=fence)"|\Z)
              | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*"? )
    | (?P<directive> ^[ \t]*\#
          (?: /\*.*?\*/ | //(?:\\\r?\n|[^\n])* | "(?:\\.|[^"\\\n])*" | \\\r?\n | [^\n] )* )
    | (?P<number> \.?\d(?:[eEpP][+-]|'?[\w.])* )
    | (?P<char> (?:u8|[uUL])?'(?:\\.|[^'\\\n])*'? )
    | (?P<word> [^\W\d]\w* )
    | (?P<sign> :: | -> | \.\.\. | [^\s\w] )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


class Token(NamedTuple):
    """One token and the offset of its first character."""

    kind: Kind
    text: str
    start: int


@lru_cache(maxsize=2)
def tokens(source: str) -> tuple[Token, ...]:
    """Every token in order; a line continuation counts as a comment.

    Any text is accepted; an unterminated comment runs to its end, an unterminated string to its line's.
    """
    return tuple(
        Token(match.lastgroup, match.group(), match.start())  # type: ignore[arg-type]
        for match in _PATTERN.finditer(source)
    )


def words(text: str) -> tuple[str, ...]:
    """Token texts of a snippet without comments."""
    return tuple(m.group() for m in _PATTERN.finditer(text) if m.lastgroup != "comment")
