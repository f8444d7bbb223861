"""An applied kernel on a device that is not the current one; a card that is not the first. Needs two GPUs."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from breaking import SOFTMAX
from live.doubles import problem
from softmax_problem import RIGHT

from workbench.devices.cards import probed
from workbench.devices.cuda import CudaDevice
from workbench.live.applied import Applied
from workbench.model import H100, Kernel, Passed
from workbench.referee.gpu_judge import GpuOptions

COUNT = torch.cuda.device_count()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(COUNT < 2, reason=f"needs two NVIDIA GPUs, this machine has {COUNT}"),
]
DOUBLE = """/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    y = empty_like(x)
    launch("twice", grid=cdiv(x.numel, 128), block=128, args=[x, y, x.numel])
    return y
*/
__device__ unsigned calls;  // memory of its own on each device
__global__ void twice(const float* x, float* y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) atomicAdd(&calls, 1u);
    if (i < count) y[i] = 2.0f * x[i];
}
"""
SECOND = "cuda:1"


@pytest.fixture
def applied() -> Applied:
    return Applied(lambda x: x * 2, problem(), DOUBLE, H100)


def test_a_call_runs_where_its_tensors_lie_and_leaves_the_current_device_alone(applied: Applied) -> None:
    torch.cuda.set_device(0)
    for turn in range(6):
        x = torch.randn(33, 70, device=f"cuda:{turn % 2}")
        y = applied(x)
        assert y.device == x.device and torch.equal(y, 2 * x)
        assert torch.cuda.current_device() == 0
    assert (applied.kernel_calls, applied.fallback_calls) == (6, 0), applied.last_fallback


def test_it_follows_the_current_stream_of_that_device(applied: Applied) -> None:
    x = torch.zeros(512, 512, device=SECOND)
    applied(x)
    with torch.cuda.device(1):
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            x.fill_(3.0)  # on another stream the kernel would have read zeros by now
            y = applied(x)
        side.synchronize()
    assert torch.equal(y, torch.full_like(y, 6.0)) and applied.fallback_calls == 0, applied.last_fallback


def test_it_is_captured_and_replayed_there(applied: Applied) -> None:
    x = torch.ones(64, 64, device=SECOND)
    with torch.cuda.device(1):
        applied(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = applied(x)
        for value in (5.0, -2.0):
            x.fill_(value)
            graph.replay()
            torch.cuda.synchronize()
            assert torch.equal(y, torch.full_like(y, 2 * value))
    assert applied.fallback_calls == 0, applied.last_fallback


def test_two_threads_with_a_device_each_do_not_get_in_each_others_way(applied: Applied) -> None:
    def calls(device: int) -> bool:
        torch.cuda.set_device(device)
        xs = [torch.full((40, 50), float(turn), device=f"cuda:{device}") for turn in range(100)]
        return all(torch.equal(applied(x), 2 * x) for x in xs)

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(calls, (0, 1)))
    assert applied.fallback_calls == 0, applied.last_fallback


def test_the_referee_judges_on_the_second_card() -> None:
    gpu = probed().gpus[1]
    device = CudaDevice(gpu.index, gpu.uuid, GpuOptions(timing=True, hazards=False, baselines=("eager",)))
    try:
        evaluation = asyncio.run(device.evaluate(SOFTMAX, Kernel(source=RIGHT), lambda stage: None))
    finally:
        asyncio.run(device.close())
    assert evaluation.outcome == Passed() and evaluation.times
