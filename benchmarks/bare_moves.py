"""What it takes to move a row's bytes and do nothing else, by the referee's clock: a fair hundred percent.

The clock flushes L2 by writing, so that a kernel of 64 MB shares the memory with lines which are still to be
written back: even a copy reaches 87% there of what a copy of 2 GB does. So every row of docs/benchmarks.md
that moves 16 MiB or more is held against a kernel that reads as many bytes as the row must and writes as
many, on the same kind of card in the same cold state. Several such kernels take turns; the fastest counts, by
CUPTI and once more by CUDA events: a row is held against the clock that it was timed by.

What is read but not written is waited for: a warp may end while its loads are on their way, and then has only
asked for its bytes.

Usage on a machine with an NVIDIA GPU: ``python benchmarks/bare_moves.py``, a minute;
``$WORKBENCH_RECEIPTS`` names the folder for ``bare-moves.json``, which ``take_phases.py`` puts beside those
of other cards. ``--list`` prints what would be timed: the bytes of every row, whatever card it is of.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from event_times import median_us
from measured_rows import MEASURED, best_measured, read_measured
from row_bytes import in_pieces

LEAST_BYTES = 16 * 2**20
"""Below, a time is mostly that of starting a kernel."""
CLOCKS = {
    "cupti": ("us", "kernel", "by", "clock", "suspicion"),
    "events": ("events_us", "events_kernel", "events_by", "events_clock", "events_suspicion"),
}
"""What a receipt calls the findings of each clock; CUPTI first: it tells what events add."""
KERNELS = ((256, 1), (512, 1), (256, 4), (1024, 2))
"""Threads of a block, and 16-byte pieces of each thread."""
MOVE = """/* plan
def plan(x, like):
    require(x.dtype == f32 and x.is_contiguous and x.numel % 4 == 0, "contiguous float32, a multiple of 4")
    require(like.dtype == f32 and like.numel % 4 == 0, "as large as the results, a multiple of 4")
    y = empty_like(like)
    reads, writes = x.numel // 4, like.numel // 4
    launch("move", grid=cdiv(max(reads, writes), THREADS * EACH), block=THREADS, args=[x, y, reads, writes])
    return y
*/
// Reads all of x and writes all of y, 16 bytes at a time: x, then zeros. x is nowhere below 0.
__global__ void move(const float* __restrict__ x, float* __restrict__ y, long long reads, long long writes) {
    const long long first = blockIdx.x * (THREADS * EACHLL) + threadIdx.x;
    float4 held[EACH];
    float seen = 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const long long at = first + i * THREADS;
        held[i] = at < reads ? __ldcs((const float4*)x + at) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const long long at = first + i * THREADS;
        seen += held[i].x;
        if (at < writes) __stcs((float4*)y + at, held[i]);
    }
    if (seen < 0.0f) y[0] = seen;  // never: but a warp that is to know has to wait for its bytes
}
"""


def source(threads: int, each: int) -> str:
    """The kernel with so many threads a block and pieces a thread."""
    return MOVE.replace("EACHLL", f"{each}LL").replace("EACH", str(each)).replace("THREADS", str(threads))


def of_this_card(rows: Sequence[dict[str, Any]], card: str) -> list[dict[str, Any]]:
    """The rows that were timed on this kind of card; all of them on one that has none yet."""
    return [row for row in rows if row["card"] == card] or list(rows)


def moves(rows: Iterable[dict[str, Any]]) -> list[tuple[int, int]]:
    """Bytes read and written by the table's rows, each pair once, the smallest first; in whole pieces."""
    found = {(in_pieces(row["read"]), in_pieces(row["written"])) for row in rows}
    return sorted((pair for pair in found if sum(pair) >= LEAST_BYTES), key=sum)


def timed(read: int, written: int) -> dict[str, Any]:
    """The fastest of the kernels that move so many bytes, by each clock."""
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

    tensors = {"x": torch.rand(read // 4, device="cuda"), "like": torch.empty(written // 4, device="cuda")}
    metas = {name: TensorMeta(dtype="f32", shape=tuple(t.shape), strides=(1,)) for name, t in tensors.items()}
    sets = rotated({"x": tensors["x"]}, INTERACTIVE)

    def act_of(threads: int, each: int) -> Callable[[int], tuple[torch.Tensor, ...]]:
        text = source(threads, each)
        plan = interpret(parse(text), metas, H100)
        runner = PlanRunner(plan, load(text, [plan], architecture(0)))
        return lambda turn: tuple(runner({"x": sets[turn % len(sets)]["x"], "like": tensors["like"]}))

    acts = {f"{threads}x{each}": act_of(threads, each) for threads, each in KERNELS}
    (name, first), *rivals = acts.items()
    found: dict[str, Any] = {"read": read, "written": written}
    for clock, fields in CLOCKS.items():
        timing = measure("move", first, dict(rivals), INTERACTIVE, Setting(cupti=clock == "cupti"))
        by = {name: timing.time_us} | {r.name: r.time_us for r in timing.measured.rivals}
        best = min(by, key=lambda kernel: by[kernel])
        told = (by[best], best, by, timing.measured.clock, timing.measured.suspicion)
        found |= dict(zip(fields, told, strict=True))
    return found


COPIES_MB = (4, 16, 32, 64, 128, 256, 512, 2048)
"""Read plus written by the copies whose two times are compared."""
REPEATS = 15
STATES = ("dirty_us", "clean_us")


def two_states() -> list[dict[str, Any]]:
    """torch's copy after L2 was flushed by writing, as the clock does, and after one more pass that reads.

    Medians by CUDA events, the device kept busy meanwhile; the pair of events itself is in the first row.
    """
    import torch

    written, read = (torch.zeros(64 * 2**20, device="cuda") for _ in range(2))

    def clean() -> None:
        written.zero_()
        torch.sum(read)

    def times(act: Callable[[], object]) -> dict[str, float]:
        return {name: median_us(act, before, REPEATS) for name, before in zip(STATES, befores, strict=True)}

    befores: tuple[Callable[[], object], ...] = (written.zero_, clean)
    rows: list[dict[str, Any]] = [{"mb": 0, **times(lambda: None)}]
    for mb in COPIES_MB:
        x = torch.ones(mb * 2**20 // 8, device="cuda")
        y = torch.empty_like(x)
        rows.append({"mb": mb, **times(partial(y.copy_, x))})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true", help="what would be timed; needs no GPU")
    given = parser.parse_args()
    receipts, _ = read_measured(MEASURED)
    measured = best_measured(receipts)
    if given.list:
        print("\n".join(f"{read} bytes read, {written} written" for read, written in moves(measured)))
        return
    import torch

    card = torch.cuda.get_device_name()
    rows: list[dict[str, Any]] = []
    found: dict[str, Any] = {
        "gpu": card,
        "torch": torch.__version__,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "rows": rows,
    }
    found["states"] = two_states()
    path = Path(os.environ.get("WORKBENCH_RECEIPTS", ".")) / "bare-moves.json"
    for read, written in moves(of_this_card(measured, card)):
        row = timed(read, written)
        rows.append(row)
        share = (read + written) / row["us"] * 1e-6
        times = f"{row['us']:9.2f} us {row['events_us']:9.2f} by events"
        print(f"{read:>12} {written:>12} {times} {share:6.3f} TB/s {row['by']}", flush=True)
        path.write_text(json.dumps(found, indent=1) + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
