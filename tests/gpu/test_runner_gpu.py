"""The launch path on a GPU: right numbers wherever calls are made, errors that say why."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from recorded_driver import plan_of

from workbench.errors import GpuError
from workbench.gpu.kernels import load
from workbench.gpu.runner import PlanRunner
from workbench.model import TensorMeta, contiguous_strides
from workbench.referee.librarymeta import library_meta

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

CLUSTERED = """/* plan
def plan(x):
    y = zeros([8], i32)
    z = empty_like(x)
    launch("ranks", grid=8, block=32, cluster=4, args=[y])
    launch("shifted", grid=1, block=32, smem=100*1024, args=[view(x, [4], offset=2), z, 0.5, 4])
    return y, z
*/
__global__ void ranks(int* y) {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) y[blockIdx.x] += rank;
}
__global__ void shifted(const float* x, float* z, double shift, long long count) {
    extern __shared__ float row[];
    row[threadIdx.x] = 0.0f;
    if (threadIdx.x < count) z[threadIdx.x] = x[threadIdx.x] + (float)shift;
}
"""


def test_clusters_zeros_views_poison_and_much_shared_memory() -> None:
    meta = TensorMeta(dtype="f32", shape=(6,), strides=(1,))
    plan = plan_of(CLUSTERED, {"x": meta})
    from workbench.live.gpu_calls import architecture

    runner = PlanRunner(plan, load(CLUSTERED, [plan], architecture(0)))
    x = torch.arange(6.0, device="cuda")
    ranks, z = runner({"x": x}, poison=True)
    assert ranks.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert z[:4].tolist() == [2.5, 3.5, 4.5, 5.5]
    assert z[4:].isnan().all()


PRODUCT = """/* plan
def plan(a, b):
    product = library("aten.bmm", a, b)
    launch("doubled", grid=cdiv(product.numel, 128), block=128, args=[product, product.numel])
    return product
*/
__global__ void doubled(float* product, long long count) {
    const long long i = blockIdx.x * 128ll + threadIdx.x;
    if (i < count) product[i] *= 2.0f;
}
"""


@pytest.mark.parametrize("size", [8, 12, 33, 64, 128, 512])
def test_a_product_of_operands_that_begin_inside_of_their_storage(size: int) -> None:
    shape = (4, size, size)
    meta = TensorMeta(dtype="f32", shape=shape, strides=contiguous_strides(shape))
    plan = plan_of(PRODUCT, {"a": meta, "b": meta}, library_meta)
    from workbench.live.gpu_calls import architecture

    runner = PlanRunner(plan, load(PRODUCT, [plan], architecture(0)))
    a, b = (torch.randn(4 * size * size + 1, device="cuda") for _ in range(2))
    plain = runner({"a": a[:-1].view(shape), "b": b[:-1].view(shape)})[0]
    torch.testing.assert_close(plain, 2 * torch.bmm(a[:-1].view(shape), b[:-1].view(shape)))
    inside = runner({"a": a[1:].view(shape), "b": b[1:].view(shape)})[0]
    torch.testing.assert_close(inside, 2 * torch.bmm(a[1:].clone().view(shape), b[1:].clone().view(shape)))


REGISTERS = """/* plan
def plan(x):
    y = empty_like(x)
    launch("greedy", grid=1, block=1024, args=[x, y])
    return y
*/
__global__ void greedy(const float* x, float* y) {
    float kept[96];
    #pragma unroll
    for (int i = 0; i < 96; ++i) kept[i] = x[i * 37 + threadIdx.x];
    float sum = 0.0f;
    for (int round = 0; round < 4; ++round) {
        #pragma unroll
        for (int i = 0; i < 96; ++i) { kept[i] = kept[i] * sum + x[round]; sum += kept[(i * 7) % 96]; }
    }
    y[threadIdx.x] = sum;
}
"""


def test_too_many_registers_are_named() -> None:
    from workbench.live.gpu_calls import architecture

    meta = TensorMeta(dtype="f32", shape=(8192,), strides=contiguous_strides((8192,)))
    plan = plan_of(REGISTERS, {"x": meta})
    runner = PlanRunner(plan, load(REGISTERS, [plan], architecture(0)))
    with pytest.raises(GpuError, match="registers a thread") as caught:
        runner({"x": torch.ones(8192, device="cuda")})
    assert caught.value.line == 4


def test_machine_code_of_another_gpu_is_named() -> None:
    meta = TensorMeta(dtype="f32", shape=(6,), strides=(1,))
    plan = plan_of(CLUSTERED, {"x": meta})
    with pytest.raises(GpuError, match="not made for this GPU"):
        load(CLUSTERED, [plan], "sm_120")


@pytest.mark.parametrize("name", ["graph_capture", "side_stream", "threads", "fallbacks"])
def test_applied_kernels_where_calls_are_made(name: str) -> None:
    import launch_figures

    told = getattr(launch_figures, name)()
    assert told["correct"], told


TURNS = """/* plan
def plan(x):
    part = empty([64], f32)
    y = empty([1], f32)
    launch("summed", grid=64, block=128, args=[x, part, y, x.numel])
    return y
*/
__device__ unsigned done;
__global__ void summed(const float* x, float* part, float* y, int count) {
    __shared__ bool last;
    float sum = 0.0f;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < count; i += 64 * 128) sum += x[i];
    if (threadIdx.x == 0) part[blockIdx.x] = 0.0f;
    __syncthreads();
    atomicAdd(&part[blockIdx.x], sum);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(&done, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!last || threadIdx.x) return;
    float all = 0.0f;
    for (int i = 0; i < 64; ++i) all += ((volatile float*)part)[i];
    y[0] = all;
}
"""
"""Adds up in the block that is done last: two launches at a time would count each other's blocks."""


def test_a_kernel_with_counters_called_from_two_streams_and_inside_a_graph() -> None:
    from workbench.live.gpu_calls import architecture

    count = 2**22
    plan = plan_of(TURNS, {"x": TensorMeta(dtype="f32", shape=(count,), strides=(1,))})
    run = PlanRunner(plan, load(TURNS, [plan], architecture(0)), applied=True).prepare(0).run
    xs = [torch.full((count,), value, device="cuda") for value in (1.0, 0.5)]
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    found = []
    for turn in range(400):
        with torch.cuda.stream(streams[turn % 2]):
            found.append(run((xs[turn % 2],))[0])
    torch.cuda.synchronize()
    assert torch.cat(found).tolist() == [count * 1.0, count * 0.5] * 200
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        here = torch.cuda.current_stream()
        (first,) = run((xs[0],))
        streams[1].wait_stream(here)
        with torch.cuda.stream(streams[1]):
            (second,) = run((xs[1],))
        here.wait_stream(streams[1])
        (third,) = run((xs[1],))
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    assert (first.item(), second.item(), third.item()) == (count * 1.0, count * 0.5, count * 0.5)


TOGETHER = """/* plan
def plan(x):
    sums = empty((132,), f32)
    y = empty_like(x)
    launch("shares", grid=132, block=256, args=[x, sums, y], const={"COUNT": x.numel}, cooperative=True)
    return y
*/
#include <cooperative_groups.h>

__global__ void shares(const float* x, float* sums, float* y) {
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (int i = blockIdx.x; i < COUNT; i += gridDim.x) sum += x[i];
        sums[blockIdx.x] = sum;
    }
    cooperative_groups::this_grid().sync();
    float all = 0.0f;
    for (int i = 0; i < gridDim.x; ++i) all += sums[i];
    for (int i = blockIdx.x * 256 + threadIdx.x; i < COUNT; i += gridDim.x * 256) y[i] = x[i] / all;
}
"""


def test_blocks_of_a_cooperative_launch_wait_for_one_another_in_a_graph_too() -> None:
    from workbench.live.gpu_calls import architecture

    meta = TensorMeta(dtype="f32", shape=(50_000,), strides=(1,))
    plan = plan_of(TOGETHER, {"x": meta})
    runner = PlanRunner(plan, load(TOGETHER, [plan], architecture(0)))
    x = torch.rand(50_000, device="cuda")
    for _ in range(3):
        (y,) = runner({"x": x})
        torch.testing.assert_close(y, x / x.sum(), rtol=1e-4, atol=0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (y,) = runner({"x": x})
    x.uniform_()
    for _ in range(3):
        y.zero_()
        graph.replay()
        torch.testing.assert_close(y, x / x.sum(), rtol=1e-4, atol=0)
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    results = []
    for stream in (first, second) * 8:
        with torch.cuda.stream(stream):
            results += runner({"x": x})
    torch.cuda.synchronize()
    for one in results:
        torch.testing.assert_close(one, x / x.sum(), rtol=1e-4, atol=0)
