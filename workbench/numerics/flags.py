"""Torch's precision flags under each contract, as names and values. Pure; ``precision.py`` sets them."""

from __future__ import annotations

from workbench.model import Contract

TF32 = ("cuda.matmul.allow_tf32", "cudnn.allow_tf32")
REDUCED = (
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
)


def flags_of(contract: Contract) -> dict[str, bool]:
    """TF32 under ``tf32`` only; 16-bit products accumulate in float32 under every contract."""
    return dict.fromkeys(TF32, contract == "tf32") | dict.fromkeys(REDUCED, False)
