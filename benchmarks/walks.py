"""How blocks that share a long row should walk it: a stretch of it for each, or all side by side.

Times a sum (reads) and a scaling (reads and writes) of 64 MB, 1 GB and 7.5 GB in both ways, with four and
eight blocks of 256 threads a multiprocessor, and with one step or four at a time; medians by CUDA events,
caches flushed by writing. What was seen is in docs/notes/2026-11-22-side-by-side.md.

Usage on a machine with an NVIDIA GPU: ``python benchmarks/walks.py``, ten seconds; ``$WORKBENCH_RECEIPTS``
names the folder for ``walks.json``. ``--source`` prints the kernels and needs no GPU.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from event_times import median_us  # noqa: E402

ELEMENTS = (16 * 2**20, 256 * 2**20, 112 * 64 * 512 * 512)
REPEATS = 7
WAYS = tuple(itertools.product((True, False), (4, 8), (1, 4)))
"""Stretches, blocks a multiprocessor, steps at a time."""
KERNEL = """/* plan
def plan(x):
    blocks = gpu.sm_count * {blocks}
    out = {out}
    chunk = cdiv(x.numel, 8 * blocks) * 8
    launch("walk", grid=blocks, block=256, args=[x, out, chunk, x.numel])
    return out
*/
__global__ void __launch_bounds__(256) walk(
    const float* __restrict__ x, float* __restrict__ out, long long chunk, long long elements) {{
    float sum = 0.0f;
    {bounds}
#pragma unroll {steps}
    for (long long at = begin; at < end; at += step) {{
        float4 v = *reinterpret_cast<const float4*>(x + at);
        {body}
    }}
    {left}
}}
"""
STRETCHES = """const long long first = blockIdx.x * chunk, step = 256 * 4;
    const long long begin = first + threadIdx.x * 4, end = min(first + chunk, elements);"""
SIDE_BY_SIDE = """const long long step = gridDim.x * 256LL * 4, end = elements;
    const long long begin = (blockIdx.x * 256LL + threadIdx.x) * 4;"""
SUM = "sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;"
SCALE = """v.x *= 0.5f, v.y *= 0.5f, v.z *= 0.5f, v.w *= 0.5f;
        __stcs(reinterpret_cast<float4*>(out + at), v);"""


def source(writes: bool, stretches: bool, blocks: int, steps: int) -> str:
    """A kernel with its plan."""
    return KERNEL.format(
        blocks=blocks,
        steps=steps,
        out="empty_like(x)" if writes else "empty((blocks,), f32)",
        bounds=STRETCHES if stretches else SIDE_BY_SIDE,
        body=SCALE if writes else SUM,
        left="" if writes else "if (sum == -1.0f) out[blockIdx.x] = sum;  // never: the loads are to stay",
    )


def timed() -> dict[str, Any]:
    """All of it, for a receipt."""
    import torch

    from workbench.gpu.kernels import load
    from workbench.gpu.runner import PlanRunner
    from workbench.live.gpu_calls import architecture
    from workbench.model import H100, TensorMeta
    from workbench.plan.interpret import interpret
    from workbench.plan.parse import parse

    flush = torch.zeros(64 * 2**20, device="cuda")
    whole = torch.ones(max(ELEMENTS), device="cuda")
    rows = []
    for elements, writes in itertools.product(ELEMENTS, (False, True)):
        x = whole[:elements]
        meta = TensorMeta(dtype="f32", shape=(elements,), strides=(1,))
        for stretches, blocks, steps in WAYS:
            text = source(writes, stretches, blocks, steps)
            plan = interpret(parse(text), {"x": meta}, H100)
            runner = PlanRunner(plan, load(text, [plan], architecture(0)))
            runner({"x": x})
            us = median_us(partial(runner, {"x": x}), flush.zero_, REPEATS)
            row = {"bytes": 4 * elements, "writes": writes, "stretches": stretches, "blocks": blocks}
            rows.append({**row, "steps": steps, "us": us})
            print(rows[-1], flush=True)
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", action="store_true", help="print the kernels; needs no GPU")
    if parser.parse_args().source:
        print("\n".join(source(writes, *way) for writes in (False, True) for way in WAYS))
        return
    path = Path(os.environ.get("WORKBENCH_RECEIPTS", ".")) / "walks.json"
    path.write_text(json.dumps(timed(), indent=1) + "\n")


if __name__ == "__main__":
    main()
