"""Single PTX instructions that the emulator knows: their statements become calls of its own functions.

Owns the list. What is not on it stays as it is, and unsupported.py refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

KNOWN: Mapping[str, str] = {"ex2.approx.ftz.f32": "emu_ex2_approx_ftz"}
"""A function of float_math.h by instruction: one float from another."""
_STATEMENT = re.compile(
    r'\basm[ \t]*(?:volatile[ \t]*)?\([ \t]*"([\w.]+) %0, %1;"[ \t]*'
    r':[ \t]*"=f"\((\w+)\)[ \t]*:[ \t]*"f"\((\w+)\)[ \t]*\)'
)


def with_known(source: str) -> str:
    """The source with the statements of known instructions as C++; every line keeps its number."""
    return _STATEMENT.sub(_as_call, source)


def _as_call(found: re.Match[str]) -> str:
    instruction, result, argument = found.groups()
    function = KNOWN.get(instruction)
    return f"{result} = {function}({argument})" if function else found.group()
