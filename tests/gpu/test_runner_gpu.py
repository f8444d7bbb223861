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
