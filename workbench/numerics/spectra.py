"""How Fourier transforms round and pass errors on, complex numbers being pairs along the last axis.

Every element of a transform is a sum of all that is transformed, each turned: of exact operands it is off by
about ``u log2(N)`` times the root of the sum of squares (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., theorem 24.2, which says so of all elements together). Owns that bound; which operations
are transforms is plan/spectra.py's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from workbench.model import DType
from workbench.numerics.dtypes import accumulate_unit
from workbench.numerics.reductions import SAFETY
from workbench.numerics.tracked import TINY, Tracked, nothing, rounded
from workbench.plan.spectra import TAKES_COMPLEX

_SCALES: Sequence[Callable[[int], float]] = (lambda n: 1.0, lambda n: n**-0.5, lambda n: 1.0 / n)
"""What results are multiplied with, by torch's number of a normalization and the elements transformed."""


def transformed(name: str, op: Any, args: list[Any], dtype: DType) -> Tracked:
    """``_fft_r2c``, ``_fft_c2c``, ``_fft_c2r`` of (operand, axes, normalization, last)."""
    x, axes, normalization, last = args
    value: Tensor = op(x.value.to(torch.float64), axes, normalization, last)
    back = name == "_fft_c2r"
    sizes = [x.value.shape[axis] for axis in axes]
    count = math.prod([*sizes[:-1], last] if back else sizes)
    scale = _SCALES[normalization](count)

    takes_complex = TAKES_COMPLEX[name]
    summed_along = [*axes, -1] if takes_complex else list(axes)

    def total(terms: Tensor) -> Tensor:
        """Over all that one result is made of. Of a spectrum that is half left out, each has a twin."""
        found: Tensor = terms.sum(summed_along, keepdim=True) * (2 * scale if back else scale)
        return found.squeeze(-1) if back else found if takes_complex else found.unsqueeze(-1)

    def root(squares: Tensor) -> Tensor:
        found: Tensor = total(squares.clamp_min(0) / scale).sqrt() * scale
        return found

    steps = math.log2(max(count, 2))
    size = root(x.value.to(torch.float64).square())
    own = SAFETY * accumulate_unit(dtype) * steps * size + TINY[dtype]
    inherited = torch.zeros_like(size)
    if not x.is_exact:
        inherited = SAFETY * root(x.independent.square()) + total(x.shared.expand(x.value.shape))
        inherited = inherited.nan_to_num(torch.inf, torch.inf)
    grown = own.nan_to_num(0.0, torch.inf).expand(value.shape)
    return rounded(value, grown, (nothing(value), inherited.expand(value.shape)), dtype)
