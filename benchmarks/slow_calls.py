"""What torch takes for topk, sorts, other orders and distances, which is not their bytes.

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
ORDERED: tuple[tuple[int, int], ...] = (
    (16384, 16),
    (1 << 20, 16),
    (16384, 64),
    (262144, 64),
    (16384, 256),
    (501, 37),
    (16, 1024),
    (4096, 1024),
    (16384, 2048),
    (64, 16384),
    (1024, 16384),
    (1, 1 << 20),
    (16, 1 << 20),
)
"""Rows, their length: what is put in order or gone along."""
ORDERS: dict[str, Callable[[torch.Tensor], object]] = {
    "sort": lambda x: x.sort(-1),
    "sort down": lambda x: x.sort(0),
    "argsort of places": lambda x: x.argsort(-1).argsort(-1),
    "median": lambda x: x.median(-1),
    "median down": lambda x: x.median(0),
    "kthvalue": lambda x: x.kthvalue(x.shape[-1] // 3 + 1),
    "cumsum": lambda x: x.cumsum(-1),
    "cummax": lambda x: x.cummax(-1),
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
    "searchsorted": lambda x: torch.searchsorted(x, x),
    "bincount": lambda x: torch.bincount((x.flatten().abs() * 20).to(torch.int64)),
    "index_put added": lambda x: x.flatten().index_put(
        ((x.flatten().abs() * 20).to(torch.int64),), x.flatten(), accumulate=True
    ),
    "index_add": lambda x: x.index_add(0, (x[:, 0].abs() * min(3, len(x) // 4)).to(torch.int64), x),
    "scatter_add": lambda x: x.scatter_add(-1, (x.abs() * 3).to(torch.int64), x),
}
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
    topk, cdist, orders = list[dict[str, object]](), list[dict[str, object]](), list[dict[str, object]]()
    for name, order in ORDERS.items():
        for rows, columns in ORDERED:
            x = torch.randn(rows, columns, device="cuda")
            us = round(microseconds(lambda x=x, order=order: order(x)), 1)
            orders.append({"call": name, "rows": rows, "columns": columns, "us": us})
            print(*orders[-1].values(), flush=True)
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
    receipt = {
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "topk": topk,
        "cdist": cdist,
        "orders": orders,
    }
    (Path(os.environ["WORKBENCH_RECEIPTS"]) / "slow_calls.json").write_text(
        json.dumps(receipt, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
