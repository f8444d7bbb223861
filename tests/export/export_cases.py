"""Three hand-written kernels and the problems they answer: what the export is tested on."""

from __future__ import annotations

from functools import cache

from workbench.model import Kernel, Problem
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem

SCALE = (
    '''
import torch
import torch.nn as nn

class Model(nn.Module):
    """Scales a matrix."""
    def forward(self, A: torch.Tensor, s: float) -> torch.Tensor:
        return A * s  # the Model itself

def get_inputs():
    return [torch.rand(64, 96), 3.5]

def get_init_inputs():
    return []
''',
    """
/* plan
def plan(A):
    require(A.is_contiguous, "contiguous")
    count = A.shape[0] * A.shape[1]
    out = empty_like(A)
    launch("scale<4>", grid=cdiv(count, 1024), block=256, args=[A, out, 3.5, count], const={"COUNT": count})
    return out
*/
#include <cuda_fp16.h>
// Four neighbours a thread.
template <int VEC>
__global__ void scale(const float* __restrict__ A, float* __restrict__ out, float s, int count) {
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * VEC;
    for (int i = first; i < first + VEC && i < COUNT; ++i) {
        out[i] = A[i] * s;
    }
}
""",
)

SOFTMAX = (
    """
import torch
import torch.nn as nn

rows = 8
width = 20000

class Rows(nn.Module):
    def __init__(self, dim):
        super(Rows, self).__init__()
        self.dim = dim

    def forward(self, x):
        return torch.softmax(x, dim=self.dim)

inputs = [torch.randn(rows, width)]
init_inputs = [1]
""",
    """
/* plan
def plan(x):
    rows, cols = x.shape
    y = empty_like(x)
    launch("softmax_rows", grid=rows, block=(64, 2), args=[x, y], smem=4 * cols, const={"COLS": cols})
    return y
*/
extern "C" __global__ void softmax_rows(const float* x, float* y) {
    extern __shared__ float row[];
    const float* from = x + size_t(blockIdx.x) * COLS;
    const int lane = threadIdx.x + 64 * threadIdx.y;
    for (int i = lane; i < COLS; i += 128) row[i] = from[i];
    __syncthreads();
    float largest = -INFINITY, sum = 0.0f;
    for (int i = 0; i < COLS; ++i) largest = fmaxf(largest, row[i]);
    for (int i = 0; i < COLS; ++i) sum += expf(row[i] - largest);
    for (int i = lane; i < COLS; i += 128) y[size_t(blockIdx.x) * COLS + i] = expf(row[i] - largest) / sum;
}
""",
)

LINEAR = (
    """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, 24), nn.Dropout(0.5))

    def forward(self, x):
        return torch.relu(self.layers(x)).sum(dim=1, keepdim=True)

def get_inputs():
    return [torch.randn(32, 48)]

def get_init_inputs():
    return [48]
""",
    """
/* plan
def plan(x, layers_0_weight, layers_0_bias):
    product = library("aten.mm", x, library("aten.permute", layers_0_weight, (1, 0)))
    raised = empty(product.shape, f32)
    total = zeros((x.shape[0], 1), f32)
    rows = x.shape[0]
    count = rows * 24
    launch("raise", grid=cdiv(count, 32), block=32, args=[product, layers_0_bias, raised], const={"N": count})
    launch("add_up", grid=rows, block=8, cluster=2, args=[raised, total], const={"N": 24})
    return total
*/
__global__ void raise(const float* product, const float* bias, float* raised) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    if (i < N) raised[i] = fmaxf(product[i] + bias[i % 24], 0.0f);
}
__global__ void add_up(const float* raised, float* total) {
    for (int i = threadIdx.x; i < N; i += 8) atomicAdd(total + blockIdx.x, raised[blockIdx.x * N + i]);
}
""",
)
CASES = {"scale": SCALE, "softmax": SOFTMAX, "linear": LINEAR}


@cache
def problem_of(name: str) -> Problem:
    """The opened problem of a case; opening takes seconds, so once."""
    return open_problem(read_cell(CASES[name][0]))


def kernel_of(name: str) -> Kernel:
    """The kernel of a case."""
    return Kernel(source=CASES[name][1])
