"""Branches on values that only raise: a check of what a reference was given, and no part of its results.

``assert (boxes[:, 2:] >= boxes[:, :2]).all()`` and ``if x.min() < 0: raise ValueError`` ask for a value,
which no export has. Where one way of the branch does nothing but raise, the other one is what is computed:
the export goes there. The reference itself still looks. Owns how Python's bytecode shows that.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType, FrameType

_ENDS = ("JUMP", "RETURN", "YIELD", "STORE_")
"""Parts of names of instructions that nothing that only raises has."""


def way_that_goes_on(frame: FrameType) -> bool | None:
    """What the value at hand must be for a frame not to raise; None where no branch on it only raises."""
    return _way(frame.f_code, frame.f_lasti)


@lru_cache(maxsize=256)
def _way(code: CodeType, at: int) -> bool | None:
    steps = [one for one in dis.get_instructions(code) if one.opname not in ("CACHE", "EXTENDED_ARG")]
    place = next((number for number, one in enumerate(steps) if one.offset == at), None)
    if place is None:
        return None
    while steps[place].opname in ("TO_BOOL", "NOT_TAKEN"):
        place += 1
    jump = steps[place]
    if "POP_JUMP" not in jump.opname or not jump.opname.endswith(("IF_TRUE", "IF_FALSE")):
        return None
    jumps_if = jump.opname.endswith("IF_TRUE")
    target = next(number for number, one in enumerate(steps) if one.offset >= jump.argval)
    stays, leaves = _only_raises(steps, place + 1), _only_raises(steps, target)
    if stays == leaves:
        return None
    return jumps_if if stays else not jumps_if


def _only_raises(steps: list[dis.Instruction], place: int) -> bool:
    for one in steps[place:]:
        if one.opname == "RAISE_VARARGS":
            return True
        if any(part in one.opname for part in _ENDS):
            return False
    return False
