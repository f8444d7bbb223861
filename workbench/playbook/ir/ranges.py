"""Which side of a comparison every place of a view lies on: a slice of a concatenation may have one piece.

Owns the proof, which holds for all sizes; where sizes decide, there is none.
"""

from __future__ import annotations

from workbench.playbook.ir.sizes import ONE, Size
from workbench.playbook.ir.views import View


def all_below(view: View, bound: Size) -> bool | None:
    """True where all elements of a view lie below ``bound``, False where none does; None if that depends."""
    if any(not is_natural(axis.stride) for axis in view.axes):
        return None
    last = view.offset
    for axis in view.axes:
        last = last + (axis.size + -ONE) * axis.stride
    if is_natural(bound + -(last + ONE)):
        return True
    return False if is_natural(view.offset + -bound) else None


def is_natural(size: Size) -> bool:
    """True when no symbol can make it negative: a sum of sizes, none of them taken off."""
    if size.number is not None:
        return size.number >= 0
    summands = size.terms or ((size.factors, size.coefficient),)
    return all(n >= 0 and all(text.isidentifier() for text in factors) for factors, n in summands)
