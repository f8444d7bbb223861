"""How long the emulator takes: build and run, plain, checked and with races.

Prints a table; writes ``emulator_speed.json`` into the folder ``$WORKBENCH_RECEIPTS`` names, when it is
set. These are times of this CPU and say nothing about a GPU. Run from the repository's root:

    python benchmarks/emulator_speed.py
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "emulator")]

from launching import KERNELS, Out, Shape, plan_of  # noqa: E402

from workbench.emulator import module  # noqa: E402
from workbench.emulator.build import build  # noqa: E402
from workbench.emulator.execute import execute  # noqa: E402
from workbench.emulator.values import Mode, Options  # noqa: E402

REPEATS = 7
RUNS: tuple[tuple[str, Mode, Options], ...] = (
    ("plain", "plain", Options()),
    ("checked", "checked", Options()),
    ("races", "checked", Options(races=True)),
)


def cases() -> dict[str, tuple[str, str, Shape, dict[str, Any]]]:
    """Name -> file, kernel expression, launch shape, arguments."""
    rows = torch.randn(64, 4096)
    square = torch.randn(256, 256)
    half = square.half()
    n = 1 << 20
    product = {"A": square, "B": square, "C": Out((256, 256)), "M": 256, "N": 256, "K": 256}
    return {
        "softmax 64x4096": (
            "softmax.cu", "softmax<256>", Shape(64, 256), {"x": rows, "y": Out((64, 4096)), "cols": 4096},
        ),
        "copy 2^20": (
            "copy.cu", "copy_coalesced", Shape(n // 256, 256), {"x": torch.ones(n), "y": Out((n,)), "n": n},
        ),
        "transpose 256x256": (
            "transpose.cu", "transpose<1>", Shape((8, 8), (32, 8)),
            {"x": square, "y": Out((256, 256)), "w": 256, "h": 256},
        ),
        "matrix product 256^3, 4x4 a thread": ("gemm.cu", "gemm_reg", Shape((4, 4), 256), product),
        "matrix product 256^3, wmma": (
            "gemm_wmma.cu", "gemm_wmma", Shape((16, 16), 32), {**product, "A": half, "B": half},
        ),
    }  # fmt: skip


def milliseconds(seconds: list[float]) -> float:
    """Median, in milliseconds."""
    return round(1e3 * statistics.median(seconds), 2)


def measure(file: str, kernel: str, shape: Shape, args: dict[str, Any]) -> dict[str, float]:
    """Milliseconds: build of each mode with a cold cache for the kernel, then whole executions."""
    plan = plan_of(kernel, shape, args)
    tensors = {name: arg for name, arg in args.items() if isinstance(arg, torch.Tensor)}
    source = (KERNELS / file).read_text()
    found: dict[str, float] = {}
    for name, mode, options in RUNS:
        builds, runs = [], []
        for repeat in range(3):
            built = build(f"{source}\n// {name} {repeat}", plan.instances, mode)
            builds.append(built.seconds)
        for _ in range(REPEATS):
            started = time.perf_counter()
            execute(plan, built, tensors, options)
            runs.append(time.perf_counter() - started)
        if name != "races":
            found[f"build {name}"] = milliseconds(builds)
        found[name] = milliseconds(runs)
    return found


def first_build_seconds() -> float:
    """Everything from nothing: runtime, precompiled headers of both modes, one kernel."""
    started = time.perf_counter()
    for mode in ("plain", "checked"):
        build("__global__ void k(int* y) { *y = 1; }", [("k", ())], mode)
    return round(time.perf_counter() - started, 1)


def main() -> None:
    """Measure, print, and leave a receipt."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["WORKBENCH_CACHE"] = cache
        first = first_build_seconds()
        results = {name: measure(*case) for name, case in cases().items()}
    columns = list(next(iter(results.values())))
    print(f"{'milliseconds, median':38}" + "".join(f"{column:>15}" for column in columns))
    for name, row in results.items():
        print(f"{name:38}" + "".join(f"{row[column]:15.1f}" for column in columns))
    print(
        f"first build with an empty cache: {first} s; {module.cores()} cores, load {os.getloadavg()[0]:.1f}"
    )
    folder = os.environ.get("WORKBENCH_RECEIPTS")
    if folder:
        receipt = {
            "milliseconds": results,
            "first_build_s": first,
            "cores": module.cores(),
            "load": os.getloadavg()[0],
            "python": platform.python_version(),
            "torch": torch.__version__,
        }
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "emulator_speed.json").write_text(json.dumps(receipt, indent=1) + "\n")


if __name__ == "__main__":
    main()
