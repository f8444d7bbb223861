"""What torch takes to solve small systems of equations.

    WORKBENCH_RECEIPTS=out python benchmarks/library_solves.py

Needs a GPU. Microseconds of a call by the wall clock, the mean of up to twenty one after the other: the host
waits in some of them. Writes ``library_solves.json``; workbench/problem/slow_calls.py is fitted to it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, linalg

COUNTS, ROWS = (1, 16, 1024, 65536, 262144), (3, 4, 6)
CALLS: Mapping[str, Callable[[Tensor, Tensor], object]] = {
    "linalg_inv_ex": lambda a, b: linalg.inv_ex(a),
    "_linalg_det": lambda a, b: linalg.det(a),
    "_linalg_slogdet": lambda a, b: linalg.slogdet(a),
    "_linalg_solve_ex": lambda a, b: linalg.solve_ex(a, b),
    "linalg_cholesky_ex": lambda a, b: linalg.cholesky_ex(a),
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, a),
    "linalg_solve_triangular": lambda a, b: linalg.solve_triangular(a, b, upper=False),
}
_MOST, _SECONDS = 20, 0.05


def microseconds(call: Callable[[], object]) -> float:
    """Mean of as many calls as fit, after two that warm up."""
    call()
    call()
    torch.cuda.synchronize()
    begin, calls = time.perf_counter(), 0
    while calls < 5 or (calls < _MOST and time.perf_counter() - begin < _SECONDS):
        call()
        calls += 1
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - begin) / calls


def main() -> None:
    """Time all of them; a line each."""
    found = list[dict[str, object]]()
    for count in COUNTS:
        for rows in ROWS:
            root = torch.randn(count, rows, rows, device="cuda")
            a = root @ root.transpose(1, 2) + torch.eye(rows, device="cuda")
            b = torch.randn(count, rows, 1, device="cuda")
            for name, call in CALLS.items():
                us = round(microseconds(lambda a=a, b=b, call=call: call(a, b)), 1)
                found.append({"call": name, "matrices": count, "rows": rows, "us": us})
                print(*found[-1].values(), flush=True)
    receipt = {"card": torch.cuda.get_device_name(), "torch": torch.__version__, "solves": found}
    path = Path(os.environ["WORKBENCH_RECEIPTS"]) / "library_solves.json"
    path.write_text(json.dumps(receipt, indent=1) + "\n")


if __name__ == "__main__":
    main()
