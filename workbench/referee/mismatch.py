"""Wrong numbers, and numbers that prove nothing, in a sentence. Pure: what was seen in, an outcome out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.model import Difference, Mismatch, Suspect
from workbench.numerics.digits import apart, digits_apart


def mismatch(case: str, inputs: str, differences: Sequence[Difference]) -> Mismatch | None:
    """The worst of the outputs that are wrong; None when all are right."""
    wrong = [one for one in differences if one.max_ratio > 1]
    if not wrong:
        return None
    worst = max(wrong, key=lambda one: one.max_ratio)
    which = f"output {worst.output}: " if len(differences) > 1 or worst.output else ""
    return Mismatch(case=case, message=which + _told(inputs, worst))


def never_written(
    case: str, outputs: Sequence[Sequence[int]], output: int, elements: int, first: tuple[int, ...]
) -> Mismatch:
    """Elements of an output that the kernel left as they were; ``outputs``: the shapes of all."""
    which = f"output {output}" if len(outputs) > 1 else "the output"
    message = (
        f"1 element of {which} is never written, at {first}"
        if elements == 1
        else f"{elements} elements of {which} are never written, the first at {first}"
    )
    return Mismatch(case=case, message=message + _tail(outputs[output], elements, first))


def _tail(shape: Sequence[int], elements: int, first: tuple[int, ...]) -> str:
    """Words for elements that are the last of an output: a rest that no whole vector or block takes."""
    size, place = math.prod(shape), 0
    for index, length in zip(first, shape, strict=True):
        place = place * length + index
    if elements == size:
        return f": none of its {size} is" if size > 1 else ": it has no other"
    return (
        f": the last {elements} of {size}, a rest that the kernel leaves out"
        if place + elements == size
        else ""
    )


def keeps_state(variables: Sequence[str]) -> Suspect:
    """A kernel that leaves its ``__device__`` variables other than it found them."""
    names = ", ".join(variables)
    return Suspect(
        message=f"the kernel keeps state from one run to the next (variables: {names}), so that what it "
        "does in a check says nothing about later calls: pass a workspace tensor, or leave the variable as "
        "it was"
    )


def _told(inputs: str, difference: Difference) -> str:
    worst = difference.worst[0]
    share = f"{difference.wrong_fraction:.0%}" if difference.wrong_fraction >= 0.01 else "under 1%"
    ratio = difference.max_ratio
    times = "" if ratio > 1e30 else f", {apart(ratio, 1.0, 3)} times the error allowed"
    digits = digits_apart(worst.expected, worst.got, 6)
    return (
        f"{share} of the elements are wrong on {inputs} inputs ({difference.pattern}); "
        f"at {worst.index} expected {worst.expected:.{digits}g}, got {worst.got:.{digits}g}{times}"
    )
