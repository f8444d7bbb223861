"""Between the model's dtype names and torch's, and what each float dtype can hold."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from workbench.errors import UsageError
from workbench.model import DType

TORCH: Mapping[DType, torch.dtype] = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}
NAMES: Mapping[torch.dtype, DType] = {value: key for key, value in TORCH.items()}

U32 = 2.0**-24
UNIT: Mapping[DType, float] = {"f64": 2.0**-53, "f32": U32, "f16": 2.0**-11, "bf16": 2.0**-8}
"""Unit roundoff: half the distance between 1 and the next number."""


def name_of(dtype: torch.dtype) -> DType:
    """Return the model's name. Raises ``UsageError`` for dtypes the workbench does not handle."""
    if dtype not in NAMES:
        raise UsageError(f"dtype {dtype} is not supported; use one of {', '.join(TORCH)}")
    return NAMES[dtype]


def is_float(dtype: DType) -> bool:
    """True for the dtypes that round."""
    return dtype in UNIT


def accumulate_unit(dtype: DType) -> float:
    """Unit roundoff a reduction over ``dtype`` must accumulate with: float32, or float64 for float64."""
    return UNIT["f64"] if dtype == "f64" else U32
