"""Complex tensors at the workbench's border: pairs of numbers, along a last axis of size 2.

Plans, kernels and checks know real numbers only. Owns the two ways across; where they are gone is form.py's
for the reference and live/'s for a person's own calls.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def as_pairs(tensor: Tensor) -> Tensor:
    """A complex tensor's numbers as pairs, without a copy where it is not conjugated; others as they are."""
    if not tensor.dtype.is_complex:
        return tensor
    pairs: Tensor = torch.view_as_real(tensor.resolve_conj())
    return pairs


def as_complex(pairs: Tensor) -> Tensor:
    """The complex tensor, (...) of (..., 2): the same memory where each pair lies together, else a copy."""
    try:
        seen: Tensor = torch.view_as_complex(pairs)
    except RuntimeError:
        seen = torch.complex(pairs.select(-1, 0), pairs.select(-1, 1))
    return seen


def results_as_pairs(returned: Any) -> Any:
    """What a reference returned, with complex tensors as pairs; what has none is left as it is."""
    if not any(complex_results(returned)):
        return returned
    return as_pairs(returned) if isinstance(returned, Tensor) else tuple(map(_if_tensor, returned))


def complex_results(returned: Any) -> tuple[bool, ...]:
    """Of each tensor that was returned, whether it is complex."""
    results = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
    return tuple(isinstance(one, Tensor) and one.dtype.is_complex for one in results)


def _if_tensor(value: Any) -> Any:
    return as_pairs(value) if isinstance(value, Tensor) else value
