"""Cooperative launches: blocks that are there at the same time, meet, and read what others have written."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import Execution, execute
from workbench.emulator.values import Mode, Options
from workbench.model import H100, CompileReport, TensorMeta
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse

HONEST = Path(__file__).parents[1] / "referee" / "honest"
MODES: tuple[Mode, ...] = ("plain", "checked")
SOURCE = """/* plan
def plan(x):
    y = empty_like(x)
    sums = empty((BLOCKS,), f32)
    launch("shares", grid=BLOCKS, block=64, args=[x, sums, y, x.numel], cooperative=True)
    return y
*/
#include <cooperative_groups.h>

__global__ void shares(const float* x, float* sums, float* y, int count) {
    __shared__ float mine[64];
    float sum = 0.0f;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < count; i += gridDim.x * 64) sum += x[i];
    mine[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int i = 0; i < 64; ++i) total += mine[i];
        sums[blockIdx.x] = total;
    }
    meet();
    float all = 0.0f;
    for (int i = 0; i < gridDim.x; ++i) all += sums[i];
    meet();
    for (int i = blockIdx.x * 64 + threadIdx.x; i < count; i += gridDim.x * 64) y[i] = x[i] / all;
    mine[threadIdx.x] += 1.0f;
}
"""
GRID = "cooperative_groups::this_grid().sync();"
OWN = """
__device__ unsigned arrived;
__device__ volatile unsigned side;

// A barrier of the kernel's own: the last to arrive turns it over. After two of them it is as it was.
__device__ void barrier() {
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned mine = side;
        __threadfence();
        if (atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1) side = mine ^ 1;
        else while (side == mine) {}
        __threadfence();
    }
    __syncthreads();
}

__global__ void"""


def of(blocks: int, meet: str = GRID, source: str = SOURCE) -> str:
    return source.replace("BLOCKS", str(blocks)).replace("meet();", meet)


def with_own(blocks: int) -> str:
    return of(blocks, "barrier();", SOURCE.replace("\n__global__ void", OWN))


def run(
    source: str, mode: Mode = "checked", reverse: bool = False, count: int = 1003, races: bool = True
) -> Execution:
    x = torch.rand(count) + 0.5
    meta = TensorMeta(dtype="f32", shape=(count,), strides=(1,))
    plan = interpret(parse(source), {"x": meta}, H100)
    options = Options(case="test", races=races, reverse=reverse)
    execution = execute(plan, build(source, plan.instances, mode), {"x": x}, options)
    if execution.outputs and not execution.report.hazards:
        torch.testing.assert_close(execution.outputs[0], x / x.sum(), rtol=1e-4, atol=1e-7)
    return execution


@pytest.mark.many(9)
@pytest.mark.parametrize("blocks", [1, 2, 7, 132])
@pytest.mark.parametrize("mode", ["plain", "checked"])
@pytest.mark.parametrize("reverse", [False, True])
def test_blocks_meet_and_read_one_another(blocks: int, mode: Mode, reverse: bool) -> None:
    report = run(of(blocks), mode, reverse).report
    assert not report.hazards, report.hazards[0].message
    assert not report.stopped and not report.kept


WORDS = """/* plan
def plan(x):
    y = empty_like(x)
    told = zeros((BLOCKS,), f32)
    launch("words", grid=BLOCKS, block=32, args=[x, told, y, x.numel], cooperative=True)
    return y
*/
__global__ void words(const float* x, float* told, float* y, int count) {
    __shared__ float all;
    if (threadIdx.x == 0) {
        float sum = 0.0f, total = 0.0f;
        for (int i = blockIdx.x; i < count; i += gridDim.x) sum += x[i];
        TELL(told + blockIdx.x, sum);
        for (int i = 0; i < gridDim.x; ++i) {
            float other;
            do { other = HEAR(told + i); } while (other == 0.0f);
            total += other;
        }
        all = total;
    }
    __syncthreads();
    for (int i = blockIdx.x * 32 + threadIdx.x; i < count; i += 32 * gridDim.x) y[i] = x[i] / all;
}
"""
VOLATILE = {
    "TELL": "#define TELL(to, value) *(volatile float*)(to) = value",
    "HEAR": "#define HEAR(from) *(volatile float*)(from)",
}
ONCE_MORE = "#define HEAR(from) __ldcv(from)"


def words(blocks: int, tell: str = VOLATILE["TELL"], hear: str = VOLATILE["HEAR"]) -> str:
    return of(blocks, source=WORDS).replace("*/", f"*/\n{tell}\n{hear}", 1)


@pytest.mark.parametrize("hear", [VOLATILE["HEAR"], ONCE_MORE])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_word_that_is_the_value_and_the_news_of_it_is_no_race(hear: str, reverse: bool) -> None:
    report = run(words(5, hear=hear), reverse=reverse).report
    assert not report.hazards, report.hazards[0].message


def test_a_word_that_is_written_as_any_other_is_a_race() -> None:
    plain = "#define TELL(to, value) *(to) = value"
    told = [hazard.message for hazard in run(words(5, tell=plain)).report.hazards]
    assert told and all("workspace" in one for one in told)


def test_what_is_asked_for_again_is_counted_once() -> None:
    """How often a thread asks in vain says whose turn it was, and nothing of a GPU."""
    few, many = (run(words(blocks)).report.launches[0] for blocks in (2, 40))
    assert many.load_bytes < 5 * few.load_bytes + 40 * 40 * 4


@pytest.mark.parametrize("reverse", [False, True])
def test_a_barrier_of_the_kernels_own_works_too(reverse: bool) -> None:
    report = run(with_own(7), reverse=reverse).report
    assert not report.hazards, report.hazards[0].message
    assert not report.kept


def test_a_barrier_that_is_missing_is_a_race() -> None:
    told = [hazard.message for hazard in run(of(4, "")).report.hazards if hazard.hazard == "race"]
    assert [words for words in told if "writes workspace %1" in words and "of block 0 read" in words], told


def test_a_second_write_after_the_readers_is_ordered_by_a_second_barrier_only() -> None:
    again = SOURCE.replace(
        "    mine[threadIdx.x] += 1.0f;", "    if (threadIdx.x == 0) sums[blockIdx.x] = all;"
    )
    assert not run(of(4, source=again)).report.hazards
    once = again.replace("    meet();\n    for (int i = blockIdx.x", "    for (int i = blockIdx.x")
    told = [hazard for hazard in run(of(4, source=once)).report.hazards if "of block" in hazard.message]
    assert told and told[0].hazard == "race" and "workspace %1" in told[0].message


def test_a_barrier_that_a_block_never_reaches_is_told() -> None:
    source = of(
        4,
        source=SOURCE.replace(
            "    float sum = 0.0f;", "    float sum = 0.0f;\n    if (blockIdx.x == 2) return;"
        ),
    )
    for reverse in (False, True):
        report = run(source, reverse=reverse).report
        (hazard,) = report.hazards
        assert hazard.hazard == "barrier" and report.stopped
        assert "waits at this grid barrier for ever" in hazard.message
        assert "1 of 4 blocks never come, block (2, 0, 0) among them" in hazard.message
        assert hazard.line == source[: source.index(GRID)].count("\n") + 1


def test_a_barrier_of_its_own_that_a_block_never_reaches_comes_to_an_end() -> None:
    source = with_own(4).replace(
        "    float sum = 0.0f;", "    float sum = 0.0f;\n    if (blockIdx.x == 2) return;"
    )
    report = run(source).report
    (hazard,) = report.hazards
    assert hazard.hazard == "barrier" and "for a value that nobody will write" in hazard.message


def test_a_grid_barrier_needs_a_cooperative_launch() -> None:
    (hazard,) = run(of(4).replace(", cooperative=True", "")).report.hazards
    assert hazard.hazard == "barrier" and "write cooperative=True" in hazard.message


def test_blocks_that_wait_for_later_ones_without_a_promise_are_told() -> None:
    (hazard,) = run(with_own(64).replace(", cooperative=True", "")).report.hazards
    assert hazard.hazard == "barrier" and "nobody promises in which order they do" in hazard.message


HEARD = """/* plan
def plan(x):
    y = empty_like(x)
    words = empty((BLOCKS,), f32)
    told = zeros((BLOCKS,), i32)
    launch("heard", grid=BLOCKS, block=96, args=[x, words, told, y, x.numel], cooperative=True)
    return y
*/
__global__ void heard(const float* x, float* words, volatile int* told, float* y, int count) {
    __shared__ float mine[96];
    float sum = 0.0f;
    for (int i = blockIdx.x * 96 + threadIdx.x; i < count; i += gridDim.x * 96) sum += x[i];
    mine[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int i = 0; i < 96; ++i) total += mine[i];
        words[blockIdx.x] = total;
        __threadfence();
        told[blockIdx.x] = 1;
    }
    if (threadIdx.x < gridDim.x) while (told[threadIdx.x] == 0) {}
    __threadfence();
    __syncthreads();
    float all = 0.0f;
    for (int i = 0; i < gridDim.x; ++i) all += ((volatile float*)words)[i];
    for (int i = blockIdx.x * 96 + threadIdx.x; i < count; i += gridDim.x * 96) y[i] = x[i] / all;
}
"""


@pytest.mark.parametrize("blocks", [3, 34, 36, 64])
@pytest.mark.parametrize("reverse", [False, True])
def test_lanes_that_wait_leave_their_turn_to_the_warp_that_they_wait_for(blocks: int, reverse: bool) -> None:
    """Two lanes of the second warp wait for what the first one writes behind the same barrier."""
    report = run(of(blocks, source=HEARD), reverse=reverse, races=False).report
    assert not report.hazards, report.hazards[0].message


HOPE = """/* plan
def plan(x):
    y = empty_like(x)
    parts = empty((4,), f32)
    arrived = zeros((1,), i32)
    launch("hope", grid=4, block=32, args=[x, parts, arrived, y, x.numel])
    return y
*/
__global__ void hope(const float* x, float* parts, int* arrived, float* y, int count) {
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (int i = blockIdx.x; i < count; i += 4) sum += x[i];
        parts[blockIdx.x] = sum;
        __threadfence();
        atomicAdd(arrived, 1);
        WAIT
        __threadfence();
        volatile float* all = parts;
        parts[blockIdx.x] = all[0] + all[1] + all[2] + all[3];
    }
    __syncthreads();
    for (int i = blockIdx.x * 32 + threadIdx.x; i < count; i += 128) y[i] = x[i] / parts[blockIdx.x];
}
"""


@pytest.mark.many(7)
@pytest.mark.parametrize(
    "wait",
    [
        "while (atomicAdd(arrived, 0) < 4) {}",
        "while (*(volatile int*)arrived < 4) {}",
        "while (__ldcg(arrived) < 4) {}",
        "while (__ldcv(arrived) < 4) {}",
        "while (*arrived < 4) __threadfence();",
        "while (*arrived < 4) __nanosleep(100);",
    ],
)
def test_a_barrier_by_hope_is_told_on_a_machine_of_many_cores(
    wait: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen cores would start all four blocks at once, and the barrier would hold by luck."""
    monkeypatch.setattr("workbench.emulator.module.cores", lambda: 16)
    source = HOPE.replace("WAIT", wait)
    (hazard,) = run(source).report.hazards
    assert hazard.hazard == "barrier" and "nobody promises in which order they do" in hazard.message
    assert "block (0, 0, 0) waits for a block that has not begun" in hazard.message
    assert hazard.line == source[: source.index(wait)].count("\n") + 1


@pytest.mark.parametrize("name", ["look_back", "last_block", "spin_lock", "grid_barrier"])
def test_blocks_that_may_wait_are_right_on_a_machine_of_many_cores(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.emulator.module.cores", lambda: 16)
    source = (HONEST / f"{name}.cu").read_text()
    x = torch.rand(33, 127) + 0.5
    plan = interpret(parse(source), {"x": TensorMeta(dtype="f32", shape=(33, 127), strides=(127, 1))}, H100)
    for mode in MODES:
        module = build(source, plan.instances, mode)
        execution = execute(plan, module, {"x": x}, Options(case="test", races=True))
        assert not execution.report.hazards, execution.report.hazards[0].message
        torch.testing.assert_close(execution.outputs[0], x.sum(1), rtol=1e-4, atol=1e-4)


def test_shared_memory_is_each_blocks_own() -> None:
    early = SOURCE.replace(
        "    mine[threadIdx.x] = sum;\n", "    if (blockIdx.x != 1) mine[threadIdx.x] = sum;\n"
    )
    hazards = run(of(3, source=early)).report.hazards
    assert hazards
    for hazard in hazards:
        assert hazard.hazard == "uninitialised" and "of block (1, 0, 0)" in hazard.message


def test_a_fault_before_the_barrier_is_the_one_that_is_told() -> None:
    (hazard,) = run(
        of(3, source=SOURCE.replace("sums[blockIdx.x] = total", "sums[blockIdx.x + 2] = total"))
    ).report.hazards
    assert hazard.hazard == "out_of_bounds" and "of block (1, 0, 0)" in hazard.message


def test_as_many_threads_as_a_card_holds() -> None:
    source = (
        of(132)
        .replace("block=64", "block=1024")
        .replace("* 64", "* 1024")
        .replace("[64]", "[1024]")
        .replace("i < 64", "i < 1024")
    )
    assert not run(source, count=140_000).report.hazards


def test_the_gpu_compiler_takes_the_same_text() -> None:
    meta = TensorMeta(dtype="f32", shape=(8,), strides=(1,))
    plan = interpret(parse(of(4)), {"x": meta}, H100)
    assert plan.launches[0].cooperative
    assert isinstance(compile_kernel(of(4), plan.instances), CompileReport)
