"""Runs a reference in float64, code that names a narrower type included.

Owns the widening. Runs in a worker child; integer and bool tensors keep their types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_CASTS = ("float", "half", "bfloat16")


class Widen(TorchFunctionMode):
    """Reads every float type as float64: ``x.float()``, ``.to(torch.bfloat16)``, ``dtype=torch.float32``."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _CASTS and args:
            return args[0].to(torch.float64)
        if name == "view" and any(isinstance(value, torch.dtype) for value in args):
            raise TypeError("the reference reads the bits of a float as another type")
        kwargs = {key: _wide(value) for key, value in (kwargs or {}).items()}
        return func(*(_wide(value) for value in args), **kwargs)


@contextmanager
def in_float64() -> Iterator[None]:
    """New tensors and named types are float64 inside; attention is what its formula says.

    The CPU's fused attention gives zeros where scores are NaN, which neither the formula nor a GPU does.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Widen(), sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.set_default_dtype(before)


def widened(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Float tensors as float64, others as they are."""
    return {name: t.to(torch.float64) if t.dtype in _NARROW else t for name, t in tensors.items()}


def _wide(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value
