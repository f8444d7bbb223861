"""Single PTX instructions that the emulator knows: their statements become calls of its own functions.

Owns the list. What is not on it stays as it is, and unsupported.py refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

KNOWN: Mapping[tuple[str, int], str] = {
    ("ex2.approx.ftz.f32", 1): "emu_ex2_approx_ftz",
    ("max.NaN.f32", 2): "emu_max_nan",
    ("min.NaN.f32", 2): "emu_min_nan",
}
"""A function of float_math.h by instruction and operands: one float from one or two others."""
_STATEMENT = re.compile(
    r'\basm[ \t]*(?:volatile[ \t]*)?\([ \t]*"([\w.]+) %0, %1(, %2)?;"[ \t]*'
    r':[ \t]*"=f"\((\w+)\)[ \t]*:[ \t]*"f"\((\w+)\)(?(2),[ \t]*"f"\((\w+)\))[ \t]*\)'
)


def with_known(source: str) -> str:
    """The source with the statements of known instructions as C++; every line keeps its number."""
    return _STATEMENT.sub(_as_call, source)


def _as_call(found: re.Match[str]) -> str:
    instruction, _, result, *operands = found.groups()
    arguments = [operand for operand in operands if operand]
    function = KNOWN.get((instruction, len(arguments)))
    return f"{result} = {function}({', '.join(arguments)})" if function else found.group()
