"""A small problem and kernels for it, right and wrong, for the referee's tests."""

from __future__ import annotations

from workbench.model import (
    Case,
    Graph,
    Kernel,
    OpNode,
    OutputSpec,
    Problem,
    Ref,
    Sampler,
    TensorSpec,
)

SOURCE = """import torch

def softmax(x):
    return torch.softmax(x, dim=1)
"""
ROWS_COLUMNS = ("s0", "s1")


def case(rows: int, columns: int, declared: bool = False) -> Case:
    """Sizes of one case."""
    return Case(
        label=f"{rows}x{columns}",
        sizes=(("s0", rows), ("s1", columns)),
        origin="declared" if declared else "proof",
    )


def _node(name: str, op: str, *args: object, reduced: bool = False) -> OpNode:
    dims = ("s0", 1) if reduced else ROWS_COLUMNS
    outs = (OutputSpec(dtype="f32", dims=dims),)
    return OpNode.model_validate({"name": name, "op": op, "args": args, "outs": outs})


PROBLEM = Problem(
    name="softmax",
    source=SOURCE,
    entry="softmax",
    kind="function",
    tensors=(
        TensorSpec(name="x", role="input", dtype="f32", dims=ROWS_COLUMNS, sampler=Sampler(kind="normal")),
    ),
    signature=("x",),
    symbols=ROWS_COLUMNS,
    outputs=(OutputSpec(dtype="f32", dims=ROWS_COLUMNS),),
    cases=(case(4096, 32768, declared=True), case(16, 16384, declared=True)),
    proofs=(case(3, 7), case(1, 1), case(5, 127), case(4, 128), case(2, 1025), case(33, 33)),
    graph=Graph(
        nodes=(
            _node("top", "aten.amax.default", Ref(ref="x"), (-1,), True, reduced=True),
            _node("low", "aten.sub.Tensor", Ref(ref="x"), Ref(ref="top")),
            _node("e", "aten.exp.default", Ref(ref="low")),
            _node("all", "aten.sum.dim_IntList", Ref(ref="e"), (-1,), True, reduced=True),
            _node("y", "aten.div.Tensor", Ref(ref="e"), Ref(ref="all")),
        ),
        outputs=(Ref(ref="y"),),
    ),
)

RIGHT = """/* plan
def plan(x):
    rows, cols = x.shape
    require(x.dtype == f32 and x.is_contiguous, "contiguous float32 only")
    y = empty_like(x)
    launch("softmax_rows<128>", grid=rows, block=128, args=[x, y, cols])
    return y
*/
template <int BLOCK>
__device__ float block_max(float value, float* scratch) {
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        float other = threadIdx.x < half ? scratch[threadIdx.x + half] : -INFINITY;
        if (threadIdx.x < half) scratch[threadIdx.x] = fmaxf(scratch[threadIdx.x], other);
        __syncthreads();
    }
    value = scratch[0];
    __syncthreads();
    return value;
}

template <int BLOCK>
__device__ float block_sum(float value, float* scratch) {
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
        __syncthreads();
    }
    value = scratch[0];
    __syncthreads();
    return value;
}

template <int BLOCK>
__global__ void softmax_rows(const float* __restrict__ x, float* __restrict__ y, int cols) {
    __shared__ float scratch[BLOCK];
    const float* row = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    float top = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += BLOCK) top = fmaxf(top, row[i]);
    top = block_max<BLOCK>(top, scratch);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK) sum += expf(row[i] - top);
    sum = block_sum<BLOCK>(sum, scratch);
    for (int i = threadIdx.x; i < cols; i += BLOCK) out[i] = expf(row[i] - top) / sum;
}
"""
STORE = "for (int i = threadIdx.x; i < cols; i += BLOCK) out[i] = expf(row[i] - top) / sum;"


def changed(old: str, new: str, source: str = RIGHT) -> Kernel:
    """The right kernel with one thing replaced; fails when there is nothing to replace."""
    assert old in source, old
    return Kernel(source=source.replace(old, new))


def storing(code: str) -> Kernel:
    """The right kernel with another way of storing the result."""
    return changed(STORE, code)
