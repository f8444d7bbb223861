"""What a kernel that has its lines of the L2 evicted last costs the kernel that is timed after it.

A copy of 8 MB runs, plain, with pinned results or with pinned inputs; then 256 MB are written, which is the
flush; then an L2 norm as torch.compile makes it is timed, and another plain copy. Between the first two
nothing is done, or pinned lines are made ordinary, as the call is given (the stream may still be at work on
the kernel) or when the device is done. What was seen is in docs/notes/2026-11-23-lines-left-behind.md.

Usage on a machine with an NVIDIA GPU: ``python benchmarks/lines_left_behind.py``, half a minute;
``$WORKBENCH_RECEIPTS`` names the folder for ``lines-left-behind.json``. ``--source`` prints the kernels and
needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

ROWS, COLUMNS, COPIES, SAMPLES, WARMUPS, AT_ONCE = 512, 4096, 12, 40, 8, 8
FLUSH_BYTES = 256 * 2**20
HELD_CYCLES = 1_000_000
"""Half a millisecond, in which the host has issued what is timed: a compiled call takes it a tenth of one."""
BEFORE = ("plain", "pinned_results", "pinned_inputs")
REMEDIES = ("nothing", "made ordinary at once", "made ordinary when the device is done")
SOURCE = r"""
#define POLICY asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy))
#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= count) return
extern "C" __global__ void plain(const float4* x, float4* y, int count) {
    INDEX;
    y[i] = x[i];
}
extern "C" __global__ void pinned_results(const float4* x, float4* y, int count) {
    INDEX;
    const float4 v = x[i];
    unsigned long long policy;
    POLICY;
    asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;"
        :: "l"(y + i), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "l"(policy) : "memory");
}
extern "C" __global__ void pinned_inputs(const float4* x, float4* y, int count) {
    INDEX;
    float4 v;
    unsigned long long policy;
    POLICY;
    asm volatile("ld.global.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
        : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(x + i), "l"(policy));
    y[i] = v;
}
"""


def rows() -> Iterator[dict[str, Any]]:
    """Every kernel before, every remedy, every kernel after: its median time and the span of nine tenths."""
    import torch
    from cuda.bindings import driver

    kernels = {name: torch.cuda._compile_kernel(SOURCE, name) for name in BEFORE}
    inputs = [torch.randn(ROWS, COLUMNS, device="cuda") for _ in range(COPIES)]
    results = [torch.empty_like(one) for one in inputs]
    spare = torch.empty(FLUSH_BYTES // 4, device="cuda")
    normed = torch.compile(lambda x: x / x.pow(2).sum(-1, keepdim=True).sqrt().clamp_min(1e-12))

    def copy(name: str, i: int) -> None:
        count = ROWS * COLUMNS // 4
        kernels[name](grid=(-(-count // 256), 1, 1), block=(256, 1, 1), args=[inputs[i], results[i], count])

    def remedy(kind: str) -> None:
        if kind == REMEDIES[2]:
            torch.cuda.synchronize()
        if kind != REMEDIES[0]:
            driver.cuCtxResetPersistingL2Cache()

    timed: dict[str, Callable[[int], Any]] = {
        "copy": lambda i: copy("plain", i),
        "torch.compile": lambda i: normed(inputs[i]),
    }
    timed["torch.compile"](0)
    for after, act in timed.items():
        for before in BEFORE:
            for kind in REMEDIES:
                torch.cuda.synchronize()
                driver.cuCtxResetPersistingL2Cache()
                spans = []
                for sample in range(SAMPLES):
                    copy(before, sample % COPIES)
                    remedy(kind)
                    spare.fill_(1.0)
                    torch.cuda._sleep(HELD_CYCLES)
                    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    first.record()
                    act((sample + COPIES // 2) % COPIES)
                    last.record()
                    spans.append((first, last))
                    if sample % AT_ONCE == AT_ONCE - 1:
                        torch.cuda.synchronize()
                times = sorted(1e3 * first.elapsed_time(last) for first, last in spans[WARMUPS:])
                few = len(times) // 20
                yield {
                    "before": before,
                    "remedy": kind,
                    "timed": after,
                    "us": statistics.median(times),
                    "from": times[few],
                    "to": times[-1 - few],
                }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", action="store_true", help="print the kernels; needs no GPU")
    if parser.parse_args().source:
        print(SOURCE)
        return
    import torch

    receipt: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
    for row in rows():
        receipt["rows"].append(row)
        span = f"[{row['from']:.2f}, {row['to']:.2f}]"
        print(
            f"{row['timed']:14} after {row['before']:15} {row['remedy']:38} {row['us']:6.2f} us {span}",
            flush=True,
        )
        if folder := os.environ.get("WORKBENCH_RECEIPTS"):
            (Path(folder) / "lines-left-behind.json").write_text(json.dumps(receipt, indent=1) + "\n")


if __name__ == "__main__":
    main()
