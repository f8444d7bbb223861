"""How fast kernels compile: a first one, a repeat, and sixteen distinct softmax variants.

Needs no GPU: NVRTC compiles for sm_90a. Prints a table; writes a JSON receipt with the raw samples
into the folder ``$WORKBENCH_RECEIPTS``, if it is set. Run it with ``python benchmarks/compile_speed.py``.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

from workbench.compile import compile_kernel
from workbench.compile.options import package_versions
from workbench.model import CompileReport
from workbench.workers import light

REPEATS = 50
LIMITS_S = {"repeat of a cached compile": 0.005, "16 softmax variants": 10.0}

SOFTMAX = """
template <int BLOCK> __device__ float reduce(float value, bool take_max) {
    __shared__ float partial[BLOCK / 32];
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, value, step);
        value = take_max ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
    for (int warp = 1; warp < BLOCK / 32; ++warp)
        value = take_max ? fmaxf(value, partial[warp]) : value + partial[warp];
    return value;
}

template <int BLOCK>
__global__ void __launch_bounds__(BLOCK) softmax(const float* __restrict__ x, float* __restrict__ y) {
    const float* row = x + size_t(blockIdx.x) * COLS;
    float* out = y + size_t(blockIdx.x) * COLS;
    float kept[COLS / BLOCK];
    float largest = -INFINITY, sum = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < COLS / BLOCK; ++i) largest = fmaxf(largest, kept[i] = row[i * BLOCK + threadIdx.x]);
    largest = reduce<BLOCK>(largest, true);
#pragma unroll UNROLL
    for (int i = 0; i < COLS / BLOCK; ++i) sum += kept[i] = __expf(kept[i] - largest);
    sum = reduce<BLOCK>(sum, false);
#pragma unroll UNROLL
    for (int i = 0; i < COLS / BLOCK; ++i) out[i * BLOCK + threadIdx.x] = kept[i] / sum;
}
"""


def compile_variant(block: int, cols: int, unroll: int) -> CompileReport:
    """Compile one specialisation; the benchmark ends when it does not compile."""
    consts = (("COLS", str(cols)), ("UNROLL", str(unroll)))
    report = compile_kernel(SOFTMAX, [(f"softmax<{block}>", consts)])
    if not isinstance(report, CompileReport):
        raise SystemExit(report.diagnostics[0].message)
    return report


def timed(action: Callable[[], object]) -> float:
    """Wall seconds of one call."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def measure() -> dict[str, list[float]]:
    """Wall seconds by what was done; every compilation starts from an empty cache."""
    samples = {"start of the server and first compile": [timed(lambda: compile_variant(128, 1024, 1))]}
    first = partial(compile_variant, 128, 1024, 1)
    samples["compile, server warm"] = [timed(partial(compile_variant, 128, 1024, u)) for u in range(2, 8)]
    samples["repeat of a cached compile"] = [timed(first) for _ in range(REPEATS)]
    variants = list(product((128, 256, 512, 1024), (4096, 8192), (4, 8)))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        all_at_once = timed(lambda: list(threads.map(lambda v: compile_variant(*v), variants)))
    samples[f"{len(variants)} softmax variants"] = [all_at_once]
    return samples


def main() -> None:
    """Measure in a cache of its own, print, and leave a receipt."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WORKBENCH_CACHE"] = folder
        samples = measure()
        light().close()
    rows = [
        {
            "what": what,
            "median_s": statistics.median(times),
            "worst_s": max(times),
            "limit_s": LIMITS_S.get(what),
        }
        for what, times in samples.items()
    ]
    print(f"{'what':40} {'median':>10} {'worst':>10} {'limit':>10}   seconds")
    for row in rows:
        limit = f"{row['limit_s']:10.4f}" if row["limit_s"] else f"{'':10}"
        print(f"{row['what']:40} {row['median_s']:10.4f} {row['worst_s']:10.4f} {limit}")
    if receipts := os.environ.get("WORKBENCH_RECEIPTS"):
        machine = {
            "cores": os.cpu_count(),
            "processor": platform.machine(),
            "python": platform.python_version(),
        }
        receipt = {"rows": rows, "samples_s": samples, "machine": machine, "versions": package_versions()}
        Path(receipts).mkdir(parents=True, exist_ok=True)
        Path(receipts, "compile_speed.json").write_text(json.dumps(receipt, indent=1))


if __name__ == "__main__":
    main()
