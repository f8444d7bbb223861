"""Runs a reference in float64, code that names a narrower type included.

Owns the widening. Runs in a worker child; integer and bool tensors keep their types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_NARROW_COMPLEX = (torch.complex64, torch.complex32)
_CASTS = ("float", "half", "bfloat16")
_COMPLEX_CASTS = ("cfloat", "chalf")


class Widen(TorchFunctionMode):
    """Reads every float type as float64: ``x.float()``, ``.to(torch.bfloat16)``, ``dtype=torch.float32``."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _CASTS and args:
            return args[0].to(torch.float64)
        if name in _COMPLEX_CASTS and args:
            return args[0].to(torch.complex128)
        if name == "view" and any(isinstance(value, torch.dtype) for value in args):
            raise TypeError("the reference reads the bits of a float as another type")
        kwargs = {key: _wide(value) for key, value in (kwargs or {}).items()}
        return func(*(_wide(value) for value in args), **kwargs)


@contextmanager
def in_float64(own: torch.dtype | None = None) -> Iterator[None]:
    """New tensors and named types are float64 inside; attention is what its formula says.

    The CPU's fused attention gives zeros where scores are NaN, which neither the formula nor a GPU does. The
    limits of ``x.dtype``, as masks have them, stay those of the reference's ``own`` type where it has one.
    """
    before, limits = torch.get_default_dtype(), torch.finfo
    torch.set_default_dtype(torch.float64)

    def own_limits(dtype: torch.dtype | None = None) -> torch.finfo:
        asked = torch.get_default_dtype() if dtype is None else dtype
        return limits(own if own is not None and asked == torch.float64 else asked)

    torch.finfo = own_limits  # type: ignore[assignment, misc]
    try:
        with Widen(), sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.finfo = limits  # type: ignore[misc]
        torch.set_default_dtype(before)


def own_dtype(tensors: Iterable[Tensor]) -> torch.dtype | None:
    """The one narrow float type of a reference; None where it has several."""
    found = {t.dtype for t in tensors if t.is_floating_point()}
    return found.pop() if len(found) == 1 and found <= set(_NARROW) else None


def widened(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Float tensors as float64, others as they are."""
    return {name: t.to(torch.float64) if t.dtype in _NARROW else t for name, t in tensors.items()}


def _wide(value: Any) -> Any:
    if not isinstance(value, torch.dtype):
        return value
    return torch.float64 if value in _NARROW else torch.complex128 if value in _NARROW_COMPLEX else value
