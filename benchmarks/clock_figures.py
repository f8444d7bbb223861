"""What the referee's clock is worth: a kernel against itself, one 2% slower, a copy, its own overheads.

Every function returns a dict for a receipt. ``figures()`` needs an NVIDIA GPU and about 45 seconds;
``python benchmarks/clock_figures.py --simulated`` runs the same verdicts on a simulated card, anywhere.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from workbench.model import Rival
from workbench.referee.clock.conditions import Blind
from workbench.referee.clock.options import INTERACTIVE, ClockOptions
from workbench.referee.clock.samples import KERNEL
from workbench.referee.clock.simulated import Noise, SimulatedSampler
from workbench.referee.clock.taking import Watch, take_case
from workbench.referee.clock.verdicts import rivals_of

RUNS = 100
SLOWER = 1.02
BUDGET_S = 18.0
"""Most seconds for one hundred runs; fewer are then made, and it is said how many."""
ELEMENTS = 36 * 2**20
"""Float32 elements that one pass reads and writes in about 100 us."""
LARGE_BYTES = 6 * 10**9

Run = Callable[[int], tuple[Rival, dict[str, Any]]]


def verdicts(
    what: str, wanted: str, run: Run, runs: int = RUNS, budget_s: float = BUDGET_S
) -> dict[str, Any]:
    """How often ``run`` ends in the wanted word, and the ratios it saw."""
    rivals, facts = [], []
    started = time.perf_counter()
    for turn in range(runs):
        rival, fact = run(turn)
        rivals.append(rival)
        facts.append(fact)
        if time.perf_counter() - started > budget_s:
            break
    words = Counter(rival.verdict for rival in rivals)
    ratios = [rival.ratio for rival in rivals]
    return {
        "what": what,
        "runs": len(rivals),
        "wanted": wanted,
        "found": words[wanted],
        "words": dict(words),
        "ratio_median": statistics.median(ratios),
        "ratio_worst": [min(ratios), max(ratios)],
        "half_width_median": statistics.median((rival.high - rival.low) / 2 for rival in rivals),
        "seconds": time.perf_counter() - started,
        "runs_detail": [
            {"verdict": r.verdict, "ratio": r.ratio, "low": r.low, "high": r.high, **fact}
            for r, fact in zip(rivals, facts, strict=True)
        ],
    }


# ------------------------------------------------------------------------------------ simulated


def simulated(noise: Noise | None = None, options: ClockOptions = INTERACTIVE) -> dict[str, Any]:
    """The rates on a simulated card: what the thresholds were chosen by."""

    def run_of(kernel_us: float) -> Run:
        def run(turn: int) -> tuple[Rival, dict[str, Any]]:
            sampler = SimulatedSampler({KERNEL: kernel_us, "itself": 100.0}, noise or Noise(), turn)
            watch = Watch(sampler.now, Blind())
            taken = take_case(sampler, "100 us", (KERNEL, "itself"), options, watch)
            return rivals_of(taken.raw, options)[0], {"time_us": kernel_us}

        return run

    return {
        "a_against_a": verdicts("simulated: a kernel against itself", "SAME", run_of(100.0)),
        "two_percent": verdicts("simulated: 2% slower", "SLOWER", run_of(100.0 * SLOWER)),
    }


# ------------------------------------------------------------------------------------ on a GPU


def a_against_a(runs: int = RUNS) -> dict[str, Any]:
    """One kernel of about 100 us against itself."""
    return verdicts("a kernel of 100 us against itself", "SAME", _contest(1.0), runs)


def two_percent(runs: int = RUNS) -> dict[str, Any]:
    """The same kernel over 2% more elements, against the original."""
    return verdicts("a kernel of 100 us with 2% more to do", "SLOWER", _contest(SLOWER), runs)


def _contest(factor: float) -> Run:
    """A pass over ``factor`` as many elements against one over all of them; nothing is allocated anew."""
    import torch

    from workbench.referee.clock.measure import measure

    whole = [torch.randn(int(ELEMENTS * SLOWER) + 4, device="cuda") for _ in range(3)]
    out = torch.empty_like(whole[0])

    def act_over(elements: int) -> Callable[[int], tuple[torch.Tensor, ...]]:
        sources = [x[:elements] for x in whole]
        target = out[:elements]

        def act(turn: int) -> tuple[torch.Tensor, ...]:
            torch.mul(sources[turn % 3], 2.0, out=target)
            return (out[:1024],)

        return act

    itself = act_over(ELEMENTS)
    kernel = itself if factor == 1.0 else act_over(int(ELEMENTS * factor) // 4 * 4)

    def run(turn: int) -> tuple[Rival, dict[str, Any]]:
        options = INTERACTIVE.model_copy(update={"seed": turn})
        timing = measure("100 us", kernel, {"itself": itself}, options)
        measured = timing.measured
        return measured.rivals[0], {
            "time_us": timing.time_us,
            "clock": measured.clock,
            "spread": measured.relative_stdev,
            "samples": measured.samples,
            "seconds": timing.seconds,
            "crosschecks": dict(measured.crosschecks),
            "suspicion": measured.suspicion,
            "sm_mhz": [measured.conditions.sm_mhz_low, measured.conditions.sm_mhz_high],
            "missing": dict(measured.missing),
        }

    return run


COPY = """/* plan
def plan(x):
    require(x.dtype == f32 and x.is_contiguous and x.numel % 4 == 0, "contiguous float32, a multiple of 4")
    y = empty_like(x)
    launch("copy4", grid=cdiv(x.numel // 4, 256), block=256, args=[x, y, x.numel // 4])
    return y
*/
// One 16-byte load and store a thread, marked as used once.
__global__ void copy4(const float* __restrict__ x, float* __restrict__ y, long long quads) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < quads) __stcs((float4*)y + i, __ldcs((const float4*)x + i));
}
"""


def copy_bandwidth(nbytes: int = 2**30) -> dict[str, Any]:
    """A copy kernel of the workbench's own against torch's copy, bytes read plus bytes written."""
    import torch

    from workbench.gpu.kernels import load
    from workbench.gpu.runner import PlanRunner
    from workbench.live.gpu_calls import architecture
    from workbench.model import H100, TensorMeta
    from workbench.plan.interpret import interpret
    from workbench.plan.parse import parse
    from workbench.referee.clock.measure import measure

    x = torch.randn(nbytes // 4, device="cuda")
    meta = TensorMeta(dtype="f32", shape=tuple(x.shape), strides=(1,))
    plan = interpret(parse(COPY), {"x": meta}, H100)
    runner = PlanRunner(plan, load(COPY, [plan], architecture(x.get_device())))
    timing = measure("copy", lambda turn: runner({"x": x}), {"torch": lambda turn: (x.clone(),)}, INTERACTIVE)
    rival = timing.measured.rivals[0]
    return {
        "what": "bytes read plus written a second, device time with cold caches",
        "bytes": 2 * nbytes,
        "ours_tb_s": 2 * nbytes / timing.time_us * 1e-6,
        "torch_tb_s": 2 * nbytes / rival.time_us * 1e-6,
        "ratio": rival.ratio,
        "within_3_percent": rival.high > 0.97,
        "measured": json.loads(timing.measured.model_dump_json()),
        "wrong": timing.wrong,
    }


def memory_added(nbytes: int = LARGE_BYTES) -> dict[str, Any]:
    """Memory the clock takes beyond inputs, outputs and its flush buffer, for an output of 6 GB."""
    import torch

    from workbench.referee.clock.gpu import lane_of
    from workbench.referee.clock.measure import measure
    from workbench.referee.clock.rotation import rotated

    lane = lane_of(INTERACTIVE)
    x = torch.ones(nbytes // 4, device="cuda")
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    sets = rotated({"x": x}, INTERACTIVE)

    def act(turn: int) -> tuple[torch.Tensor, ...]:
        return (torch.mul(sets[turn % len(sets)]["x"], 2.0),)

    timing = measure("6 GB", act, {"itself": act}, INTERACTIVE)
    added = torch.cuda.max_memory_allocated() - before - nbytes
    return {
        "what": "peak of allocated memory less inputs, one output and the flush buffer",
        "output_bytes": nbytes,
        "flush_bytes": lane.held_bytes,
        "added_bytes": added,
        "added_share": added / (2 * nbytes),
        "seconds": timing.seconds,
        "time_us": timing.time_us,
        "wrong": timing.wrong,
    }


def lane_facts() -> dict[str, Any]:
    """Which clock there is, what flushing and an event pair cost, a short kernel by every clock."""
    import torch

    from workbench.referee.clock.gpu import lane_of, pci_bus_id
    from workbench.referee.clock.measure import Setting, measure
    from workbench.referee.clock.tracing import open_trace

    lane, (trace, reason) = lane_of(INTERACTIVE), open_trace()
    x = torch.randn(4096, device="cuda")

    def short(turn: int) -> tuple[torch.Tensor, ...]:
        return (torch.mul(x, 2.0),)

    found: dict[str, Any] = {
        "cupti": trace is not None,
        "why_not": reason,
        "flush_us": lane.flush_us,
        "event_overhead_us": lane.overhead_us,
        "pci": pci_bus_id(),
    }
    for name, cupti in (("short by cupti", True), ("short by events", False)):
        timing = measure("short", short, {"itself": short}, INTERACTIVE, Setting(cupti=cupti))
        found[name] = {
            "time_us": timing.time_us,
            "seconds": timing.seconds,
            "measured": json.loads(timing.measured.model_dump_json()),
        }
    return found


def figures() -> dict[str, Any]:
    """All of it; a part that fails says so and costs the others nothing."""
    found: dict[str, Any] = {}
    for part in (lane_facts, a_against_a, two_percent, copy_bandwidth, memory_added):
        try:
            found[part.__name__] = part()
        except Exception as error:
            import traceback

            found[part.__name__] = {
                "failed": f"{type(error).__name__}: {error}",
                "traceback": traceback.format_exc(limit=-8),
            }
        told = {k: v for k, v in found[part.__name__].items() if k not in ("runs_detail", "measured")}
        print(part.__name__, json.dumps(told, default=str)[:1500], flush=True)
    return found


if __name__ == "__main__":
    result = simulated() if "--simulated" in sys.argv else figures()
    for entry in result.values():
        entry.pop("runs_detail", None)
    print(json.dumps(result, indent=1, default=str))
