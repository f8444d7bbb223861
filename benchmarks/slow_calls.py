"""What torch takes for topk and distances, which is not their bytes.

    WORKBENCH_RECEIPTS=out python benchmarks/slow_calls.py

Needs a GPU. Microseconds of a call, the mean of twenty one after the other by CUDA events. Writes
``slow_calls.json``; workbench/problem/slow_calls.py is fitted to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import torch

ROWS: tuple[tuple[int, int, int], ...] = (
    (16384, 64, 2),
    (16384, 256, 8),
    (16384, 1024, 8),
    (16384, 2048, 16),
    (16384, 8192, 8),
    (4096, 2048, 16),
    (1024, 2048, 16),
    (256, 2048, 16),
    (64, 2048, 16),
    (4096, 512, 4),
    (65536, 64, 8),
    (64, 50257, 10),
    (64, 50257, 1),
    (8, 128256, 16),
    (1, 1 << 20, 10),
    (512, 32000, 5),
    (4096, 32000, 5),
)
"""Rows, their length, k."""
POINTS: tuple[tuple[int, int, float], ...] = (
    (4800, 256, 1.0),
    (2048, 2048, 3.0),
    (300, 300, 1.0),
    (100000, 16, 1.0),
)
"""Points of either side, p."""
NUMBERS = (4, 16, 64)
"""Of a point."""
_CALLS = 20


def microseconds(call: Callable[[], object]) -> float:
    """Mean of twenty calls, after three that warm up."""
    for _ in range(3):
        call()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(_CALLS):
        call()
    end.record()
    torch.cuda.synchronize()
    return 1e3 * begin.elapsed_time(end) / _CALLS


def main() -> None:
    """Time all of them; a line each."""
    topk, cdist = list[dict[str, object]](), list[dict[str, object]]()
    for rows, columns, k in ROWS:
        x = torch.randn(rows, columns, device="cuda")
        topk.append(
            {
                "rows": rows,
                "columns": columns,
                "k": k,
                "us": round(microseconds(lambda x=x, k=k: x.topk(k)), 1),
            }
        )
        print("topk", *topk[-1].values(), flush=True)
    for many, few, p in POINTS:
        for numbers in NUMBERS:
            a, b = (torch.randn(n, numbers, device="cuda") for n in (many, few))
            us = round(microseconds(lambda a=a, b=b, p=p: torch.cdist(a, b, p=p)), 1)
            cdist.append({"points": many, "others": few, "numbers": numbers, "p": p, "us": us})
            print("cdist", *cdist[-1].values(), flush=True)
    receipt = {"card": torch.cuda.get_device_name(), "torch": torch.__version__, "topk": topk, "cdist": cdist}
    (Path(os.environ["WORKBENCH_RECEIPTS"]) / "slow_calls.json").write_text(
        json.dumps(receipt, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
