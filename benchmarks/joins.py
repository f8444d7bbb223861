"""What it costs to join the parts that blocks leave of one sum, and to let blocks stay for many steps.

Times a sum of squares of 67 and 268 MB: by blocks that stay on the card and by blocks of one step each, which
leave their part and nothing else, count themselves and let the last one join, or tell it in a word. Then,
without a join, by blocks of one step that take their places in other orders. Beside them a bare read of as
many bytes. What was seen is in docs/notes/2026-11-22-joins-in-words.md.

Usage on a machine with an NVIDIA GPU: ``python benchmarks/joins.py``, half a minute; ``$WORKBENCH_RECEIPTS``
names the folder for ``joins.json``. ``--source`` prints the kernels and needs no GPU.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import bare_moves  # noqa: E402

BYTES = (67_108_864, 268_435_456)
JOINS = ("nothing", "counter", "words")
LAYOUTS = ((512, 4, 2), (1024, 2, 2), (1024, 0, 2), (1024, 0, 4))
"""Threads of a block, blocks a multiprocessor that stay (0: a block a step), vectors of a thread a step."""
ORDERS = {
    "in order": "block",
    "backwards": "blocks - 1 - block",
    "permuted within 256": "block / 256 * 256 + block % 256 * 67 % 256",
    "permuted within 2048": "block / 2048 * 2048 + block % 2048 * 1021 % 2048",
}
"""Which step a block takes, of ``blocks``; both sums have whole windows of steps of 32 KB."""
KERNEL = """/* plan
def plan(x):
    require(x.dtype == f32 and x.is_contiguous and x.numel % 4 == 0, "contiguous float32, a multiple of 4")
    vectors = x.numel // 4
    blocks = {blocks}
    out = empty((), f32)
    parts = empty((blocks,), f32)
    launch("total", grid=blocks, block={threads}, args=[x, out, parts, vectors])
    return out
*/
constexpr int THREADS = {threads}, EACH = {each};

// What all threads of the block have together, in every one of the first warp.
__device__ float block_sum(float value) {{
    __shared__ float warps[32];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < THREADS / 32 ? warps[threadIdx.x % 32] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
    __syncthreads();
    return value;
}}

__device__ unsigned int arrived;
__device__ unsigned long long told[16384];

__global__ void __launch_bounds__(THREADS) total(
    const float* __restrict__ x, float* __restrict__ out, float* __restrict__ parts, int vectors) {{
    float sum = 0.0f;
    const int block = blockIdx.x, blocks = gridDim.x, first = {order};
    for (int from = first * THREADS * EACH; from < vectors; from += gridDim.x * THREADS * EACH) {{
        float4 held[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i) {{
            const int at = from + i * THREADS + threadIdx.x;
            held[i] = at < vectors ? __ldcs((const float4*)x + at) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }}
#pragma unroll
        for (int i = 0; i < EACH; ++i) {{
            const float4 v = held[i];
            sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
        }}
    }}
    sum = block_sum(sum);
{join}
}}
"""
TEXTS = {
    "nothing": "    if (threadIdx.x == 0) parts[blockIdx.x] = sum;",
    "counter": """    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last) return;
    sum = 0.0f;
    for (int part = threadIdx.x; part < gridDim.x; part += THREADS) sum += parts[part];
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[0] = sum;""",
    "words": """    volatile unsigned long long* words = told;
    if (threadIdx.x == 0) words[blockIdx.x] = 1ull << 32 | __float_as_uint(sum);
    if (blockIdx.x != gridDim.x - 1) return;
    sum = 0.0f;
    for (int from = threadIdx.x; from < gridDim.x; from += 4 * THREADS) {
        unsigned long long said[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) said[i] = from + i * THREADS < gridDim.x ? words[from + i * THREADS] : 1;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (from + i * THREADS >= gridDim.x) break;
            while (said[i] == 0) said[i] = words[from + i * THREADS];
            words[from + i * THREADS] = 0;
            sum += __uint_as_float(unsigned(said[i]));
        }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[0] = sum;""",
}

KERNELS = (
    *((layout, join, "in order") for layout, join in itertools.product(LAYOUTS, JOINS)),
    *(((1024, 0, 2), "nothing", order) for order in list(ORDERS)[1:]),
)
"""All that is timed: layout, join, order."""


def source(threads: int, stay: int, each: int, join: str, order: str = "in order") -> str:
    """A kernel with its plan."""
    steps = f"cdiv(vectors, {threads * each})"
    blocks = f"min({steps}, gpu.sm_count * {stay})" if stay else steps
    return KERNEL.format(threads=threads, each=each, blocks=blocks, join=TEXTS[join], order=ORDERS[order])


def timed(nbytes: int) -> list[dict[str, Any]]:
    """All kernels over so many bytes, in turns; raises where one is wrong."""
    import torch

    from workbench.gpu.kernels import load
    from workbench.gpu.runner import PlanRunner
    from workbench.live.gpu_calls import architecture
    from workbench.model import H100, TensorMeta
    from workbench.plan.interpret import interpret
    from workbench.plan.parse import parse
    from workbench.referee.clock.measure import measure
    from workbench.referee.clock.options import INTERACTIVE
    from workbench.referee.clock.rotation import rotated

    tensors = {"x": torch.randn(nbytes // 4, device="cuda")}
    metas = {"x": TensorMeta(dtype="f32", shape=(nbytes // 4,), strides=(1,))}
    sets = rotated(tensors, INTERACTIVE)
    wanted = float(tensors["x"].double().square().sum())

    def act_of(text: str) -> Callable[[int], tuple[torch.Tensor, ...]]:
        plan = interpret(parse(text), metas, H100)
        runner = PlanRunner(plan, load(text, [plan], architecture(0)))
        return lambda turn: tuple(runner(sets[turn % len(sets)]))

    acts, rows = {}, {}
    for (threads, stay, each), join, order in KERNELS:
        name = f"{threads}x{each} {stay} {join}, {order}"
        acts[name] = act_of(source(threads, stay, each, join, order))
        rows[name] = {
            "bytes": nbytes,
            "threads": threads,
            "stay": stay,
            "each": each,
            "join": join,
            "order": order,
        }
        for turn in range(2 if join != "nothing" else 0):
            if abs(float(acts[name](turn)[0]) / wanted - 1) > 1e-4:
                raise SystemExit(f"{name} is wrong in turn {turn}")
    first, *others = acts
    timing = measure("sum", acts[first], {name: acts[name] for name in others}, INTERACTIVE)
    times = {first: timing.time_us} | {rival.name: rival.time_us for rival in timing.measured.rivals}
    return [rows[name] | {"us": times[name], "clock": timing.measured.clock} for name in acts]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", action="store_true", help="print the kernels; needs no GPU")
    if parser.parse_args().source:
        print("\n".join(source(*layout, join, order) for layout, join, order in KERNELS))
        return
    import torch

    rows: list[dict[str, Any]] = []
    bare: dict[int, float] = {}
    for nbytes in BYTES:
        bare[nbytes] = bare_moves.timed(nbytes, 16)["us"]
        rows += timed(nbytes)
        for row in rows[-len(KERNELS) :]:
            print(row, f"{bare[nbytes] / row['us']:.3f} of a bare read", flush=True)
    found = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "bare": bare, "rows": rows}
    path = Path(os.environ.get("WORKBENCH_RECEIPTS", ".")) / "joins.json"
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
