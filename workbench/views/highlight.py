"""CUDA text as lines of (class, text) runs, for every view that shows source. Colours nothing itself.

Classes: ``comment``, ``plan`` (inside the plan comment), ``string``, ``word`` (C++ keyword),
``cuda`` (CUDA's own words), ``number``, ``macro`` (preprocessor) and ``""``.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Run(NamedTuple):
    """A stretch of one line in one class."""

    kind: str
    text: str


_CPP = (
    "alignas|auto|bool|break|case|char|class|const|constexpr|continue|default|delete|do|double|else|enum|"
    "extern|false|float|for|if|inline|int|long|namespace|new|nullptr|operator|private|public|return|short|"
    "signed|sizeof|static|static_assert|static_cast|reinterpret_cast|struct|switch|template|this|true|"
    "typedef|typename|union|unsigned|using|void|volatile|while"
)
_CUDA = (
    "__global__|__device__|__host__|__shared__|__constant__|__restrict__|__forceinline__|__launch_bounds__|"
    "__noinline__|threadIdx|blockIdx|blockDim|gridDim|warpSize|float2|float4|half|half2|__half|__half2|"
    "__nv_bfloat16|__nv_bfloat162|uint2|uint4|int2|int4|int8_t|int32_t|int64_t|uint32_t|uint64_t|size_t"
)
_TOKEN = re.compile(
    r"(?P<plan>/\*\s*plan\b.*?(?:\*/|\Z))|(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))"
    r'|(?P<string>"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
    r"|(?P<macro>^[ \t]*\#[^\n]*)|(?P<number>\b\d[\w.]*(?:[eE][+-]\d+f?)?)"
    r"|(?P<cuda>\b(?:" + _CUDA + r"|__\w+(?:_sync|threads)\w*)\b)"
    r"|(?P<word>\b(?:" + _CPP + r")\b)",
    re.DOTALL | re.MULTILINE,
)


def highlight(source: str) -> tuple[tuple[Run, ...], ...]:
    """One tuple of runs a line; joining their texts gives the line back exactly."""
    lines: list[list[Run]] = [[]]
    position = 0
    for match in _TOKEN.finditer(source):
        _extend(lines, "", source[position : match.start()])
        _extend(lines, match.lastgroup or "", match.group())
        position = match.end()
    _extend(lines, "", source[position:])
    return tuple(tuple(line) for line in lines)


def _extend(lines: list[list[Run]], kind: str, text: str) -> None:
    first, *rest = text.split("\n")
    if first:
        lines[-1].append(Run(kind, first))
    lines += ([Run(kind, part)] if part else [] for part in rest)
