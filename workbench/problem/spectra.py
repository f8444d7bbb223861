"""Fourier transforms while a reference is traced: what stands for them takes and gives pairs of numbers.

Owns the stand-ins and the shapes of their results; what calls them in a plan is plan/spectra.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from workbench.plan.spectra import in_pairs

_SCHEMAS = {
    "_fft_r2c": "(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
    "_fft_c2c": "(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
    "_fft_c2r": "(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor",
}
_LIBRARY = torch.library.Library("workbench", "FRAGMENT")  # type: ignore[no-untyped-call]


def _real_to_complex(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:
    sizes = list(x.shape)
    if onesided:
        sizes[dim[-1]] = sizes[dim[-1]] // 2 + 1
    return x.new_empty([*sizes, 2])


def _complex_to_complex(x: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
    return x.new_empty(x.shape)


def _complex_to_real(x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    sizes = list(x.shape[:-1])
    sizes[dim[-1]] = last_dim_size
    return x.new_empty(sizes)


_IMITATED = {
    "_fft_r2c": _real_to_complex, "_fft_c2c": _complex_to_complex, "_fft_c2r": _complex_to_real,
}  # fmt: skip

for _name, _schema in _SCHEMAS.items():
    _LIBRARY.define(f"{_name}{_schema}")  # type: ignore[no-untyped-call]
    _kernel = in_pairs(_name, getattr(torch.ops.aten, _name).default)
    _LIBRARY.impl(_name, _kernel, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"workbench::{_name}", _IMITATED[_name], lib=_LIBRARY)

STANDING_IN: Mapping[str, Callable[..., Tensor]] = {
    name: getattr(torch.ops.workbench, name).default for name in _SCHEMAS
}
"""By ATen's base name."""
SPECTRA: Mapping[str, str] = {f"workbench.{name}.default": f"aten.{name}.default" for name in _SCHEMAS}
"""What a stand-in is called in a graph."""
