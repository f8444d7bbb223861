"""Thread-block clusters: blocks that run together, meet, and read one another's shared memory."""

import pytest
import torch

from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import Execution, execute
from workbench.emulator.values import Mode, Options
from workbench.model import H100, CompileReport, TensorMeta
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse

SOURCE = """/* plan
def plan(x):
    rows, cols = x.shape
    y = empty((rows,), f32)
    launch("row_sums", grid=(BLOCKS, rows), block=64, args=[x, y, cols], cluster=BLOCKS)
    return y
*/
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void row_sums(const float* x, float* y, int cols) {
    cg::cluster_group cluster = cg::this_cluster();
    __shared__ float mine[64];
    const unsigned rank = cluster.block_rank(), blocks = cluster.num_blocks();
    float sum = 0.0f;
    for (int col = cluster.thread_rank(); col < cols; col += cluster.num_threads()) {
        sum += x[size_t(blockIdx.y) * cols + col];
    }
    mine[threadIdx.x] = sum;
    cluster.sync();  // written
    if (rank == 0 && threadIdx.x == 0) {
        float total = 0.0f;
        for (unsigned other = 0; other < blocks; ++other) {
            const float* theirs = cluster.map_shared_rank(mine, other);
            for (int i = 0; i < 64; ++i) total += theirs[i];
        }
        y[blockIdx.y] = total;
    }
    cluster.sync();  // read
}
"""


def run(source: str, x: torch.Tensor, mode: Mode = "checked", reverse: bool = False) -> Execution:
    meta = TensorMeta(dtype="f32", shape=tuple(x.shape), strides=tuple(x.stride()))
    plan = interpret(parse(source), {"x": meta}, H100)
    options = Options(case="test", races=True, reverse=reverse)
    return execute(plan, build(source, plan.instances, mode), {"x": x}, options)


def of(blocks: int, source: str = SOURCE) -> str:
    return source.replace("BLOCKS", str(blocks))


@pytest.mark.many(5)
@pytest.mark.parametrize("blocks", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("mode", ["plain", "checked"])
def test_blocks_of_a_cluster_read_one_another(blocks: int, mode: Mode) -> None:
    x = torch.randn(5, 1003)
    execution = run(of(blocks), x, mode, reverse=blocks == 4)
    assert not execution.report.hazards, execution.report.hazards[0].message
    torch.testing.assert_close(execution.outputs[0], x.sum(1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("old", "new", "hazard", "words"),
    [
        ("cluster.sync();  // written", "", "race", "shared mine, which thread"),
        ("cluster.sync();  // read", "", "barrier", "which may have ended: no cluster.sync()"),
        ("mine[threadIdx.x] = sum;", "if (rank) mine[0] = sum;", "uninitialised", "before anything wrote it"),
        ("i < 64", "i < 65", "out_of_bounds", "reads"),
        ("cluster.sync();  // written", "if (rank != 1) cluster.sync();", "barrier", "which may have ended"),
        ("total += theirs[i]", "const_cast<float*>(theirs)[i] = 0.0f", "race", "wrote"),
    ],
)
def test_what_goes_wrong_between_blocks_is_found(old: str, new: str, hazard: str, words: str) -> None:
    source = of(4, SOURCE.replace(old, new))
    if hazard == "race" and "0.0f;" in source and "const_cast" in new:
        source = source.replace("cluster.sync();  // written", "")
    hazards = run(source, torch.randn(2, 500)).report.hazards
    assert [h for h in hazards if h.hazard == hazard and words in h.message], [h.message for h in hazards]


def test_a_rank_that_does_not_exist_ends_the_launch() -> None:
    with pytest.raises(Exception, match="no block of that rank"):
        execution = run(of(2, SOURCE.replace("other < blocks", "other <= blocks")), torch.randn(1, 64))
        raise RuntimeError(str(execution.report))


def test_the_gpu_compiler_takes_the_same_text() -> None:
    x = TensorMeta(dtype="f32", shape=(2, 500), strides=(500, 1))
    plan = interpret(parse(of(4)), {"x": x}, H100)
    assert plan.launches[0].cluster == (4, 1, 1)
    assert isinstance(compile_kernel(of(4), plan.instances), CompileReport)


def test_clusters_that_are_counted_and_not_looked_at_for_races_are_no_hazard() -> None:
    """Of a launch of 65,536 threads races are looked for in some clusters; accesses are counted in all."""
    x = torch.randn(256, 300)
    execution = run(of(4), x)
    assert not execution.report.hazards, execution.report.hazards[0].message
    torch.testing.assert_close(execution.outputs[0], x.sum(1))
