"""Ends that no honest value lies beyond, whatever its error: one over more than one is never more than one.

Owns which operations have such ends and what becomes of them in sums, products, logarithms and the like.
What an error bound reaches beyond them is no kernel's: ``1 - sigmoid(x) + 1e-8`` is more than zero where the
sigmoid's error is larger than what it lacks to 1, and its logarithm is that of 1e-8 at the least. Ends are
two numbers for a whole tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from workbench.numerics.tracked import ANYWHERE, Span, Tracked

_NOT_NEGATIVE: Span = (0.0, math.inf)
_OWN: Mapping[str, Span] = {
    "sigmoid": (0.0, 1.0),
    "erfc": (0.0, 2.0),
    **dict.fromkeys(("tanh", "erf", "sin", "cos", "sign"), (-1.0, 1.0)),
    **dict.fromkeys(("exp", "exp2", "abs", "square", "sqrt", "rsqrt", "relu", "softplus"), _NOT_NEGATIVE),
}
_MONOTONE = frozenset(
    (
        "add", "sub", "rsub", "mul", "neg", "log", "log2", "log10", "log1p", "maximum", "minimum", "clamp",
        "clamp_min", "clamp_max",
    )
)  # fmt: skip
"""In each argument: what they make of the ends are the ends."""


def span_of(
    name: str,
    op: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    off: Callable[[float], float],
) -> Span:
    """Ends of a pointwise result; ``off`` is how far a result of some size is rounded."""
    own = _OWN.get(name)
    if own is not None:
        return own
    spans = [arg.span for arg in args if isinstance(arg, Tracked)]
    if kwargs or all(span == ANYWHERE for span in spans):
        return ANYWHERE
    if name in ("div", "true_divide"):
        positive = len(spans) == len(args) == 2 and all(least >= 0 for least, _ in spans)
        return _NOT_NEGATIVE if positive else ANYWHERE
    if name not in _MONOTONE:
        return ANYWHERE
    corners = product(*[_ends(arg) for arg in args])
    found = [float(op(*corner)) for corner in corners]
    if name == "mul":  # nothing times what has no end
        found = [0.0 if math.isnan(one) else one for one in found]
    if any(map(math.isnan, found)):
        return ANYWHERE
    return _outwards(min(found), max(found), off)


def _ends(arg: Any) -> tuple[Any, ...]:
    if not isinstance(arg, Tracked):
        return (arg,)
    return tuple(torch.tensor(end, dtype=torch.float64, device="cpu") for end in arg.span)


def _outwards(least: float, most: float, off: Callable[[float], float]) -> Span:
    down, up = (off(end) if math.isfinite(end) else 0.0 for end in (least, most))
    return (least - down, most + up)


def without_poles(moved: Tensor, value: Tensor, end: Tensor, span: Span) -> Tensor:
    """What an operand's end becomes, with NaN for an infinity at the very end of its span.

    That says that the other end has to speak for both. A logarithm goes to infinity so slowly that p log p,
    which does not, would else be unknown wherever p may be nothing.
    """
    least, most = span
    if not (math.isfinite(least) or math.isfinite(most)) or not moved.dtype.is_floating_point:
        return moved
    poles = moved.isinf()
    if not bool(poles.any()):
        return moved
    # Where there is no end, an infinity is what overflowed and no pole.
    at_end = (((end == least) | (end == most)) & torch.isfinite(end)).expand(moved.shape)
    return torch.where(at_end & poles & torch.isfinite(value), torch.nan, moved)


def of_sum(span: Span) -> Span:
    """Of a sum of any number of terms, or their mean."""
    return (0.0 if span[0] >= 0 else -math.inf, 0.0 if span[1] <= 0 else math.inf)


def of_all(spans: Iterable[Span]) -> Span:
    """Of a tensor with elements of several."""
    least, most = zip(*spans, strict=True)
    return (min(least), max(most))


def stored(span: Span, unit: float) -> Span:
    """Of what is rounded to a dtype."""
    return _outwards(*span, lambda end: unit * abs(end))
