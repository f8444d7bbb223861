"""Fourier transforms as a plan calls them: complex numbers are pairs of real ones, on a last axis of size 2.

Owns which operations are such and what calls them on tensors; how a graph comes to have them is problem/'s,
what they round numerics/'s. Imports torch only in a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

TAKES_COMPLEX: Mapping[str, bool] = {"_fft_r2c": False, "_fft_c2c": True, "_fft_c2r": True}
"""By ATen's base name, whether what is transformed is complex."""


def in_pairs(base: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The operation of ATen's name ``base`` on real tensors; one that is no transform stays as it is.

    The result is row-major: a GPU's library leaves transforms of several axes in another order than a CPU's.
    """
    if base not in TAKES_COMPLEX:
        return function

    def transformed(operand: Tensor, *rest: Any, **options: Any) -> Tensor:
        import torch

        given = torch.view_as_complex(operand.contiguous()) if TAKES_COMPLEX[base] else operand
        made: Tensor = function(given, *rest, **options)
        return (torch.view_as_real(made) if made.is_complex() else made).contiguous()

    return transformed
