"""Calibrates the error bounds from both sides: what an honest kernel may reach, what a careless one does.

For every class of operation: the largest error over the bound among honest float32 variants (PyTorch's own
and other orders of summation, online and one-pass forms, fast intrinsics) on all kinds of input, and the
error of the same operation with its inputs rounded to TF32, half and bfloat16, or added up in half. The
first must stay below 1, the second go above it on at least one kind. Usage, from the repository's root:

    python benchmarks/calibrate_bounds.py

Prints a table; writes ``calibration.json`` to ``benchmarks/receipts``, or into the folder
``$WORKBENCH_RECEIPTS`` names. A test holds the constants of ``workbench/numerics`` against the receipt.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "numerics")]

import known_ops as ops  # noqa: E402
import test_bounds as variants  # noqa: E402

from workbench.numerics import bounds, reductions  # noqa: E402
from workbench.numerics.kinds import KINDS  # noqa: E402

SEEDS = (0, 1, 2)
LOWER = ("tf32", "f16", "bf16")
Kernel = Callable[..., Tensor]


def chunked_sum(x: Tensor, chunk: int) -> Tensor:
    """PyTorch's own sums of pieces, added in order."""
    return variants.sequential_sum(torch.stack([part.sum(-1) for part in x.split(chunk, -1)], -1))


def honest() -> dict[str, dict[str, Kernel]]:
    """Variants by operation."""
    found: dict[str, dict[str, Kernel]] = {name: {"eager": make().call} for name, make in ops.OPS.items()}
    for name, variant, kernel in variants.HONEST:
        found[name][variant] = kernel
    for chunk in (7, 32, 256):
        found["row_sum"][f"chunks of {chunk}"] = lambda x, c=chunk: chunked_sum(x, c)
    found["row_sum"]["reversed"] = lambda x: variants.sequential_sum(x.flip(-1))
    return found


def worst(op: ops.Op, kernel: Kernel, kinds: tuple[Any, ...]) -> tuple[float, str]:
    """Largest error over the bound on some kinds of input, and the kind."""
    return max((op.judge(kernel, kind, seed)[0], kind) for kind in kinds for seed in SEEDS)


def lowered(op: ops.Op, cast: str) -> Kernel:
    """The reference on inputs of lower precision."""
    return lambda **tensors: op.call(**{name: variants._lower(t, cast) for name, t in tensors.items()})


def half_sum(x: Tensor) -> Tensor:
    """Adds up in half precision."""
    return variants.sequential_sum(x.half()).float()


def calibration() -> list[dict[str, Any]]:
    """A row for each operation and variant."""
    rows = []
    for name, kernels in honest().items():
        op = ops.OPS[name]()
        for variant, kernel in kernels.items():
            ratio, kind = worst(op, kernel, tuple(k for k in KINDS if k != "special values"))
            rows.append(_row(name, "honest", variant, ratio, kind))
        lower = {cast: lowered(op, cast) for cast in LOWER}
        if name == "row_sum":
            lower["half accumulator"] = half_sum
        for variant, kernel in lower.items():
            ratio, kind = worst(op, kernel, variants.MATRIX)
            rows.append(_row(name, "lower precision", variant, ratio, kind))
    return rows


def _row(op: str, side: str, variant: str, ratio: float, kind: str) -> dict[str, Any]:
    shown = float(f"{ratio:.4g}")
    print(f"{op:16} {side:16} {variant:20} {shown:12} times the bound, worst on {kind}", flush=True)
    return {"op": op, "side": side, "variant": variant, "ratio": shown, "kind": kind}


def constants() -> dict[str, float]:
    """What the receipt vouches for."""
    return {
        "SAFETY": reductions.SAFETY,
        "EQUAL_TERMS": reductions.EQUAL_TERMS,
        "RMS_FLOOR": bounds.RMS_FLOOR,
        "DECISIVE": bounds.DECISIVE,
        "FALLBACK_SAFETY": bounds.FALLBACK_SAFETY,
        "OWN_MARGIN": bounds.OWN_MARGIN,
        "SWINGS": bounds.SWINGS,
        "DRAWN": reductions.DRAWN,
    }


def main() -> int:
    """Run, print, write the receipt."""
    rows = calibration()
    upper = max(row["ratio"] for row in rows if row["side"] == "honest")
    lower = min(row["ratio"] for row in rows if row["side"] != "honest")
    receipt = {
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "seeds": list(SEEDS),
        "constants": constants(),
        "worst_honest_ratio": upper,
        "best_lower_precision_ratio": lower,
        "repeat": "python benchmarks/calibrate_bounds.py",
        "rows": rows,
    }
    folder = Path(os.environ.get("WORKBENCH_RECEIPTS", ROOT / "benchmarks" / "receipts"))
    (folder / "calibration.json").write_text(json.dumps(receipt, indent=1) + "\n")
    print(f"honest variants reach {upper:.3g} of the bound, lower precision at least {lower:.3g} times it")
    return 0 if upper <= 1 < lower else 1


if __name__ == "__main__":
    sys.exit(main())
