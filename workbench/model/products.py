"""How much faster than float32's the units are that may do a product: by contract and factors. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.model.problem import Contract

BY_CONTRACT: Mapping[Contract, float] = {"ieee-fp32": 1.0, "tf32": 8.5, "16-bit io, fp32 accumulate": 17.0}
BY_FACTOR_BYTES: Mapping[int, float] = {2: 17.0, 1: 33.0}
"""Peaks over float32's rate, 60 TFLOP/s: TF32 495, 16 bits 990, 8 bits 1979; H100 datasheet, SXM, dense."""

EMULATED_OVER_FP32 = 3.0
"""Three TF32 products emulate one in fp32: 495 / 3 of 60 TFLOP/s. No contract's unit is slower."""


def over_fp32(contract: Contract, factor_bytes: int) -> float:
    """Peak over float32's for factors of so many bytes: a model of float32 may multiply in bfloat16."""
    return max(BY_CONTRACT[contract], BY_FACTOR_BYTES.get(factor_bytes, 1.0))


def fastest_over_fp32(contract: Contract, factor_bytes: int) -> float:
    """The same by the fastest honest way, which for float32 is that emulation."""
    return max(EMULATED_OVER_FP32, over_fp32(contract, factor_bytes))
