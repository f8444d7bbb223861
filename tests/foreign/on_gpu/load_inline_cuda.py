"""A CUDA kernel of its own through load_inline, as KernelBench solutions bring it.

problem: large_softmax
timed: yes
verdict: passed
"""

from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ float reduced(float value, bool largest, float* part) {
    for (int lane = 16; lane > 0; lane /= 2) {
        float other = __shfl_xor_sync(0xffffffff, value, lane);
        value = largest ? (isnan(value) || value > other ? value : other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    value = part[0];
    for (int warp = 1; warp < blockDim.x / 32; warp++)
        value = largest ? (isnan(value) || value > part[warp] ? value : part[warp]) : value + part[warp];
    return value;
}

__global__ void __launch_bounds__(256) row_softmax_kernel(const float* x, float* y, int cols) {
    __shared__ float part[8];
    const float* row = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) top = isnan(row[i]) || row[i] > top ? row[i] : top;
    top = reduced(top, true, part);
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += expf(row[i] - top);
    sum = reduced(sum, false, part);
    for (int i = threadIdx.x; i < cols; i += blockDim.x) out[i] = expf(row[i] - top) / sum;
}

torch::Tensor row_softmax(torch::Tensor x) {
    auto in = x.contiguous();
    auto y = torch::empty_like(in);
    row_softmax_kernel<<<in.size(0), 256>>>(in.data_ptr<float>(), y.data_ptr<float>(), (int)in.size(1));
    return y;
}
"""
module = load_inline(
    name="row_softmax",
    cpp_sources="torch::Tensor row_softmax(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["row_softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_softmax(x)
