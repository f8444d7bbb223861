"""What it costs to read long rows side by side instead of all memory in order, a front that moves along.

Reads 512 rows of 50256 (103 MB): in order, with a block a row, and with several blocks a row; each with the
exponentials of a logsumexp and without, and nothing joined. Then the whole mean of logsumexps: a block a row,
or pieces of rows in order that tell the last block of their row in words what they come to. What was seen is
in docs/notes/2026-11-28-rows-and-fronts.md.

Usage on a machine with an NVIDIA GPU: ``python benchmarks/fronts.py``, half a minute; ``$WORKBENCH_RECEIPTS``
names the folder for ``fronts.json``. ``--source`` prints the kernels and needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

ROWS, COLUMNS = 512, 50256
AT_ONCE = 7
"""Kernels that take turns in one measurement, of which the first is the same each time."""


@dataclass(frozen=True)
class Way:
    """How the rows are read."""

    threads: int
    loads: int
    """Vectors of 16 bytes that a thread asks for before it looks at the first."""
    pieces: int = 1
    """Blocks of a row."""
    rows: int = ROWS
    exponentials: bool = False
    joins: bool = False
    """Whether the mean of all logsumexps is computed, which needs the exponentials."""

    @property
    def source(self) -> str:
        """The kernel with its plan."""
        consts = {
            "ROWS": self.rows,
            "COLS": ROWS * COLUMNS // self.rows,
            "PIECES": self.pieces,
            "THREADS": self.threads,
            "LOADS": self.loads,
            "EXPONENTIALS": int(self.exponentials),
            "JOINS": int(self.joins),
        }
        return KERNEL.replace("{consts}", str(consts))


KERNEL = """/* plan
def plan(x):
    out = empty((), f32)
    consts = {consts}
    blocks = consts["ROWS"] * consts["PIECES"]
    launch("rows", grid=blocks, block=consts["THREADS"], args=[x, out], const=consts)
    return out
*/
constexpr float LEAST = -3e38f;

// What pieces tell the last one of their row, and rows the last of all; zero between launches.
__device__ unsigned long long pieces_told[ROWS * PIECES], rows_told[ROWS];

__device__ void tell(volatile unsigned long long* word, float first, float second) {
    const unsigned int low = __float_as_uint(first), high = __float_as_uint(second);
    *word = (unsigned long long)high << 32 | (low == 0 && high == 0 ? 0x80000000 : low);
}

__device__ float2 hear(volatile unsigned long long* word) {
    unsigned long long both = *word;
    while (both == 0) both = *word;
    *word = 0;
    return {__uint_as_float(unsigned(both)), __uint_as_float(unsigned(both >> 32))};
}

// Maxima with the sums of powers of two relative to them.
__device__ float2 join(float2 a, float2 b) {
    const float top = fmaxf(a.x, b.x);
    return {top, a.y * exp2f(a.x - top) + b.y * exp2f(b.x - top)};
}

__device__ float2 warp_join(float2 a) {
    for (int offset = 16; offset > 0; offset /= 2) {
        a = join(a, {__shfl_xor_sync(~0u, a.x, offset), __shfl_xor_sync(~0u, a.y, offset)});
    }
    return a;
}

__global__ __launch_bounds__(THREADS) void rows(const float* __restrict__ x, float* __restrict__ out) {
    const int row = blockIdx.x / PIECES, piece = blockIdx.x % PIECES;
    const float4* from = (const float4*)(x + size_t(row) * COLS);
    const int first = int((long long)(COLS / 4) * piece / PIECES);
    const int last = int((long long)(COLS / 4) * (piece + 1) / PIECES);
    float2 own = {LEAST, 0.0f};
    for (int at = first + threadIdx.x; at < last; at += THREADS * LOADS) {
        float4 held[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            const int there = at + i * THREADS;
            held[i] = there < last ? __ldcs(from + there) : make_float4(LEAST, LEAST, LEAST, LEAST);
        }
        float top = own.x;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            top = fmaxf(top, fmaxf(fmaxf(held[i].x, held[i].y), fmaxf(held[i].z, held[i].w)));
        }
        if (EXPONENTIALS) {
            own.y *= exp2f(own.x - top);
#pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                own.y += exp2f(held[i].x - top) + exp2f(held[i].y - top);
                own.y += exp2f(held[i].z - top) + exp2f(held[i].w - top);
            }
        }
        own.x = top;
    }
    if (!JOINS) {
        if (own.x == 12345.0f && own.y == 1.0f) out[0] = own.x;  // never: but the values have to be there
        return;
    }
    __shared__ float2 parts[32];
    own = warp_join(own);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    own = threadIdx.x < THREADS / 32 ? parts[threadIdx.x] : make_float2(LEAST, 0.0f);
    if (piece < PIECES - 1) {
        own = warp_join(own);
        if (threadIdx.x == 0) tell(pieces_told + row * PIECES + piece, own.x, own.y);
        return;
    }
    for (int i = threadIdx.x; i < PIECES - 1; i += 32) own = join(own, hear(pieces_told + row * PIECES + i));
    own = warp_join(own);
    float value = own.x + log2f(own.y);
    if (row < ROWS - 1) {
        if (threadIdx.x == 0) tell(rows_told + row, value, 1.0f);
        return;
    }
    value = threadIdx.x == 0 ? value : 0.0f;
    for (int i = threadIdx.x; i < ROWS - 1; i += 32) value += hear(rows_told + i).x;
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    if (threadIdx.x == 0) out[0] = value / ROWS;
}
"""
IN_ORDER = Way(256, 1, rows=ROWS * COLUMNS // 1024)


def ways() -> Iterator[Way]:
    """All ways to be timed."""
    yield from (IN_ORDER, Way(256, 4, rows=ROWS * COLUMNS // 4096), Way(1024, 1, rows=ROWS * COLUMNS // 4096))
    for exponentials in (False, True):
        for threads, loads in ((256, 1), (256, 4), (512, 4), (1024, 1), (1024, 4)):
            yield Way(threads, loads, exponentials=exponentials)
        for pieces in (2, 4, 8, 16):
            yield Way(256, 4, pieces, exponentials=exponentials)
    yield Way(1024, 1, exponentials=True, joins=True)
    for threads, loads in ((1024, 1), (512, 2), (256, 4)):
        yield Way(threads, loads, -(-COLUMNS // (4 * threads * loads)), exponentials=True, joins=True)
    for threads, loads in ((512, 4), (256, 8), (256, 4)):
        yield Way(threads, loads, 7, exponentials=True, joins=True)


def timed() -> list[dict[str, Any]]:
    """Each way with its time in microseconds; those that join are first held against torch."""
    import torch

    from workbench.gpu.kernels import load
    from workbench.gpu.runner import PlanRunner
    from workbench.live.gpu_calls import architecture
    from workbench.model import H100, TensorMeta
    from workbench.plan.interpret import interpret
    from workbench.plan.parse import parse
    from workbench.referee.clock.measure import Setting, measure
    from workbench.referee.clock.options import INTERACTIVE
    from workbench.referee.clock.rotation import rotated

    x = torch.randn(ROWS * COLUMNS, device="cuda")
    metas = {"x": TensorMeta(dtype="f32", shape=tuple(x.shape), strides=(1,))}
    sets = rotated({"x": x}, INTERACTIVE)
    nats = torch.log(torch.tensor(2.0, dtype=torch.float64, device="cuda"))
    true = float((torch.logsumexp(x.view(ROWS, COLUMNS).double() * nats, 1) / nats).mean())

    def act_of(way: Way) -> Callable[[int], tuple[torch.Tensor, ...]]:
        plan = interpret(parse(way.source), metas, H100)
        runner = PlanRunner(plan, load(way.source, [plan], architecture(0)))
        if way.joins:
            for _ in range(2):  # the words must be zero again
                assert abs(float(runner({"x": x})[0]) - true) < 1e-3, way
        return lambda turn: tuple(runner({"x": sets[turn % len(sets)]["x"]}))

    found = []
    first, *others = ways()
    for start in range(0, len(others), AT_ONCE - 1):
        group = others[start : start + AT_ONCE - 1]
        rivals = {str(number): act_of(way) for number, way in enumerate(group)}
        timing = measure("in order", act_of(first), rivals, INTERACTIVE, Setting(cupti=False))
        times = {rival.name: rival.time_us for rival in timing.measured.rivals}
        found.append(asdict(first) | {"us": timing.time_us})
        found += [asdict(way) | {"us": times[str(number)]} for number, way in enumerate(group)]
        for row in found[-len(group) - 1 :]:
            print(row, flush=True)
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", action="store_true", help="print the kernels")
    if parser.parse_args().source:
        print("\n\n".join(way.source for way in ways()))
        return
    import torch

    folder = Path(os.environ.get("WORKBENCH_RECEIPTS") or Path(__file__).parent / "receipts")
    receipt = {"gpu": torch.cuda.get_device_name(), "bytes": 4 * ROWS * COLUMNS, "rows": timed()}
    (folder / "fronts.json").write_text(json.dumps(receipt, indent=1) + "\n")


if __name__ == "__main__":
    main()
