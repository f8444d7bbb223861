"""The kinds of input a kernel is tried on. Names only: importable without torch."""

from __future__ import annotations

from typing import Literal, get_args

InputKind = Literal[
    "normal",
    "scale 1e-3",
    "scale 64",
    "offset",
    "far negative",
    "heavy-tailed",
    "sparse",
    "zero-one",
    "special values",
]
KINDS: tuple[InputKind, ...] = get_args(InputKind)
