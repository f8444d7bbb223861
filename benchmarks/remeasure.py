"""Kernels of committed receipts, judged afresh in turns with all baselines: where one was not timed then.

Nothing is searched for, so that it takes a minute where the grid takes several. Baselines are compiled first,
a program a shape: max-autotune compiles eighteen kernels for each matrix product. Usage on a machine with an
NVIDIA GPU: ``python benchmarks/remeasure.py [--seconds 110] RECEIPT...``, names of files in
``benchmarks/receipts/measured``; the new receipts lie beside those of grid.py, for ``take_receipts.py``.
``--list`` prints what would be measured and needs no GPU.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import on_the_gpu as gpu
from compiled_first import warm, warm_all

from workbench.model import Problem
from workbench.referee.receipts import Receipt, read_receipt

MEASURED = Path(__file__).resolve().parent / "receipts" / "measured"
COMPILING = 0.6
"""Of the seconds, at most."""


def shown(receipt: Receipt) -> Problem:
    """The receipt's problem at the shapes that it has a time of."""
    timed = {case.case for case in receipt.cases}
    cases = tuple(case for case in receipt.problem.cases if case.label in timed)
    return receipt.problem.model_copy(update={"cases": cases})


def baselines(names: list[str]) -> dict[str, list[str]]:
    """A program for the baselines of every shape, by the receipt and the shape."""
    return {
        f"{name} {case.label}": [sys.executable, __file__, "--warm", case.label, name]
        for name in names
        for case in shown(read_receipt(MEASURED / name)).cases
    }


def run(names: list[str], give_up: float) -> list[str]:
    """Judge every kernel against everything; a row each. Returns the names that have no times."""
    from workbench.referee.clock.contestants import AT_ONCE, LATER

    kept = gpu.Receipt("judged")
    device = gpu.open_device(timing=True, hazards=False, baselines=(*AT_ONCE, *LATER))
    device.keep_receipts(gpu.workplace() / "receipts")
    failed = []
    for name in names:
        if time.monotonic() > give_up:
            failed.append(name)
            continue
        with kept.guarded(name):
            known = read_receipt(MEASURED / name)
            row = gpu.judged_row(device, shown(known), known.kernel, full=True)
            kept.add("rows", {"op": known.problem.name, "again": name, **row})
            print(f"{known.problem.name}: {row['kind']}, {row['s']:.1f} s", flush=True)
            for line in row["times"]:
                print("   ", line, flush=True)
            failed += [] if row["kind"] == "passed" else [name]
    asyncio.run(device.close())
    return failed + [one["what"] for one in kept.values.get("failures", [])]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("receipts", nargs="+")
    parser.add_argument("--seconds", type=float, default=110.0)
    parser.add_argument("--warm", default="", help="compile the baselines of one shape; it calls itself so")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    give_up = time.monotonic() + given.seconds
    if given.list:
        print("\n".join(baselines(given.receipts)))
    elif given.warm:
        problem = shown(read_receipt(MEASURED / given.receipts[0]))
        one = tuple(case for case in problem.cases if case.label == given.warm)
        warm(problem.model_copy(update={"cases": one}), [])
    else:
        failed = warm_all(baselines(given.receipts), COMPILING * given.seconds)
        print(f"baselines compiled, {give_up - time.monotonic():.0f} s left", flush=True)
        failed += run(given.receipts, give_up)
        if failed:
            raise SystemExit(f"no times: {', '.join(failed)}")


if __name__ == "__main__":
    main()
