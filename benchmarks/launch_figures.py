"""What a launch costs the host, and applied kernels under a graph, on a side stream, profiled: on a GPU.

Owns the measurements; each function returns a dict for a receipt. Host cost is wall time from a call to its
return, the queue never full: medians over batches of calls, all routes and their pieces in turn in one run
(``launch_routes.py`` has them). Usage: ``python benchmarks/launch_figures.py`` prints the dicts.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from launch_routes import Bench, routes_of

from workbench.gpu.kernels import load
from workbench.gpu.runner import PlanRunner
from workbench.live.applied import Applied
from workbench.live.gpu_calls import architecture
from workbench.model import (
    H100,
    Case,
    Graph,
    OutputSpec,
    Problem,
    Ref,
    Sampler,
    TensorMeta,
    TensorSpec,
    contiguous_strides,
)
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse

BATCHES = 150
CALLS = 20
"""Calls in a batch: fewer than the launches a stream's queue holds."""
PROFILE_S = 25.0
"""Limit of the profiler's run."""
SHAPE = (64, 256)
KERNEL = """/* plan
def plan(x):
    rows, cols = x.shape
    require(x.is_contiguous, "contiguous only")
    y = empty_like(x)
    launch("softmax_rows", grid=rows, block=128, args=[x, y, cols])
    return y
*/
// One block a row: the maximum, the sum of exponentials, then the quotient.
__device__ float block_fold(float value, bool maximum) {
    __shared__ float partial[4];
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, value, step);
        value = maximum ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    float result = partial[0];
    for (int i = 1; i < 4; ++i) result = maximum ? fmaxf(result, partial[i]) : result + partial[i];
    return result;
}
__global__ void softmax_rows(const float* x, float* y, int cols) {
    const float* row = x + (long long)blockIdx.x * cols;
    float* out = y + (long long)blockIdx.x * cols;
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) largest = fmaxf(largest, row[i]);
    largest = block_fold(largest, true);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += expf(row[i] - largest);
    sum = block_fold(sum, false);
    for (int i = threadIdx.x; i < cols; i += blockDim.x) out[i] = expf(row[i] - largest) / sum;
}
"""


def softmax(x: torch.Tensor) -> torch.Tensor:
    """The operation that the kernel replaces."""
    return torch.softmax(x, dim=1)


def problem() -> Problem:
    """Softmax over rows, any shape."""
    dims = ("s0", "s1")
    return Problem(
        name="softmax",
        source="import torch\ndef softmax(x):\n    return torch.softmax(x, dim=1)\n",
        entry="softmax",
        kind="function",
        tensors=(TensorSpec(name="x", role="input", dtype="f32", dims=dims, sampler=Sampler(kind="normal")),),
        signature=("x",),
        symbols=dims,
        outputs=(OutputSpec(dtype="f32", dims=dims),),
        cases=(Case(label="64x256", sizes=(("s0", SHAPE[0]), ("s1", SHAPE[1]))),),
        graph=Graph(nodes=(), outputs=(Ref(ref="y"),)),
    )


def applied() -> Applied:
    """The kernel as ``%cuda_apply`` puts it behind a name."""
    return Applied(softmax, problem(), KERNEL, H100)


def host_costs(batches: int = BATCHES) -> dict[str, Any]:
    """Microseconds of host time a call, each route's median and quartiles; the figure's own criteria."""
    routes = routes_of(_bench())
    samples: dict[str, list[float]] = {name: [] for name in (*routes.calls, *routes.loops)}
    with torch.no_grad():
        for call in routes.calls.values():
            for _ in range(5):
                _batch_us(call)
        for _ in range(batches):
            for name, call in routes.calls.items():
                samples[name].append(_batch_us(call))
            for name, loop in routes.loops.items():
                torch.cuda.synchronize()
                samples[name].append(loop())
    torch.cuda.synchronize()
    medians = {name: statistics.median(values) for name, values in samples.items()}
    return {
        "what": "host microseconds a call, one kernel; medians over batches in turn",
        "shape": list(SHAPE),
        "batches": batches,
        "calls_a_batch": CALLS,
        "host": _host(),
        "median_us": {name: round(value, 3) for name, value in medians.items()},
        "quartiles_us": {name: _quartiles(values) for name, values in samples.items()},
        "least_us": {name: round(min(values), 3) for name, values in samples.items()},
        "missing": routes.missing,
        "runner_at_most_6_us": medians["plan runner"] <= 6.0,
        "runner_below_torch_op": medians["plan runner"] < medians["torch.softmax"],
        "runner_over_bare_and_allocation_us": round(
            medians["plan runner"] - medians["bare launch"] - medians.get("allocation alone", 0.0), 3
        ),
        "apply_over_bare_us": round(medians["applied call"] - medians["bare launch"], 3),
        "apply_within_5_us_of_bare": medians["applied call"] - medians["bare launch"] <= 5.0,
        "apply_below_torch_op": medians["applied call"] < medians["torch.softmax"],
    }


def _bench() -> Bench:
    """The kernel loaded, called once on both ways, and right."""
    x = torch.randn(SHAPE, device="cuda")
    metas = {"x": TensorMeta(dtype="f32", shape=SHAPE, strides=contiguous_strides(SHAPE))}
    plan = interpret(parse(KERNEL), metas, H100)
    kernels = load(KERNEL, [plan], architecture(x.get_device()))
    call = applied()
    with torch.no_grad():
        torch.testing.assert_close(PlanRunner(plan, kernels)({"x": x})[0], softmax(x))
        torch.testing.assert_close(call(x), softmax(x))
    assert call.kernel_calls == 1, call.last_fallback
    return Bench(x, KERNEL, plan, kernels, call, softmax)


def _host() -> dict[str, str]:
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "processor": cpu[0].partition(":")[2].strip() if cpu else platform.processor(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(),
    }


def _batch_us(call: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    started = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - started) / 1e3 / CALLS


def _quartiles(values: list[float]) -> list[float]:
    low, _, high = statistics.quantiles(values, n=4)
    return [round(low, 3), round(high, 3)]


# ------------------------------------------------------------------------------------ where calls are made


def graph_capture() -> dict[str, Any]:
    """An applied call inside ``torch.cuda.graph``, replayed; what is not loaded falls back."""
    call, x = applied(), torch.randn(SHAPE, device="cuda")
    odd = torch.randn(8, 40, device="cuda")
    call(x)
    fresh = applied()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = call(x)
        z = fresh(odd)
    worst = 0.0
    for _ in range(3):
        x.normal_()
        odd.normal_()
        graph.replay()
        torch.cuda.synchronize()
        worst = max(worst, _error(y, softmax(x)), _error(z, softmax(odd)))
    return {
        "what": "an applied kernel captured by torch.cuda.graph and replayed three times",
        "worst_error": worst,
        "kernel_calls": call.kernel_calls,
        "not_loaded_before": fresh.last_fallback,
        "correct": worst < 1e-5 and call.kernel_calls == 2 and "captur" in fresh.last_fallback,
    }


def side_stream() -> dict[str, Any]:
    """An applied call on a stream of the caller's: ordered behind work queued there, nowhere else."""
    call, x = applied(), torch.randn(SHAPE, device="cuda")
    call(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(x)  # memory of this stream is there before the clock of the card is watched
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.fill_(0.0)  # seen only by a kernel that waits for this stream
        x[:, 0] = 1.0
        y = call(x)
        idle = torch.cuda.default_stream().query() and not stream.query()
    stream.synchronize()
    worst = _error(y, softmax(x))
    return {
        "what": "an applied kernel on a side stream behind 10 ms of work",
        "worst_error": worst,
        "default_stream_idle_meanwhile": idle,
        "correct": worst < 1e-6 and idle and call.kernel_calls == 3,
    }


def threads() -> dict[str, Any]:
    """Applied calls from eight threads at once, each on a stream of its own."""
    import threading

    call, wrong = applied(), []

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                x = torch.randn(SHAPE, device="cuda")
                if _error(call(x), softmax(x)) > 1e-5:
                    wrong.append(number)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {
        "what": "an applied kernel from eight threads",
        "kernel_calls": call.kernel_calls,
        "fallback_calls": call.fallback_calls,
        "correct": not wrong and call.kernel_calls == 400,
    }


def fallbacks() -> dict[str, Any]:
    """Calls that are not the kernel's, each with its reason, each with the original's answer."""
    x = torch.randn(SHAPE, device="cuda")
    too_much = KERNEL.replace("block=128", "block=128, smem=226*1024").replace("partial[4]", "partial[1024]")
    found = {}
    for name, call, given in (
        ("shared memory", Applied(softmax, problem(), too_much, H100), x),
        ("gradient", applied(), x.clone().requires_grad_()),
        ("layout", applied(), x.t()),
        ("large CPU tensor", applied(), torch.randn(2048, 1024)),
    ):
        right = _error(call(given), softmax(given)) < 1e-6
        found[name] = {"reason": call.last_fallback, "correct": right and call.fallback_calls == 1}
    call = applied()
    for _ in range(4):  # known and recognised by now
        call(x)
    with torch.autocast("cuda"):
        call(x)
    found["autocast"] = {"reason": call.last_fallback, "correct": call.fallback_calls == 1}
    differentiable = call(x.clone().requires_grad_()).requires_grad
    correct = differentiable and (call.kernel_calls, call.fallback_calls) == (4, 2)
    found["gradient later"] = {"reason": call.last_fallback, "correct": correct}
    correct = all(entry["correct"] for entry in found.values())
    return {"what": "calls that fall back, and why", "reasons": found, "correct": correct}


def profile_once() -> dict[str, Any]:
    """One run of Nsight Compute on one call of the kernel, or the reason why there are no counters."""
    from workbench.profile import ProfileRequest, profile_kernel
    from workbench.profile.nsight import NoCounters

    rows, cols = 4096, 8192
    case = Case(label=f"{rows}x{cols}", sizes=(("s0", rows), ("s1", cols)))
    target = H100.model_copy(update={"arch": architecture(torch.cuda.current_device())})
    request = ProfileRequest(problem=problem(), source=KERNEL, case=case, target=target)
    started = time.perf_counter()
    told: dict[str, Any] = {"what": "one call under Nsight Compute", "case": case.label}
    try:
        profile = profile_kernel(request, timeout_s=PROFILE_S)
    except NoCounters as error:
        return {**told, "counters": False, "reason": str(error)}
    return {
        **told,
        "counters": True,
        "seconds": round(time.perf_counter() - started, 2),
        "bound": profile.bound,
        "sentences": list(profile.sentences),
        "metrics": [dict(kernel.metrics) for kernel in profile.kernels],
    }


def _error(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got.detach().double() - expected.detach().double()).abs().max())


def figures() -> dict[str, Any]:
    """All of it, about 30 seconds."""
    parts = (host_costs, graph_capture, side_stream, threads, fallbacks, profile_once)
    return {part.__name__: part() for part in parts}


if __name__ == "__main__":
    print(json.dumps(figures(), indent=1))
