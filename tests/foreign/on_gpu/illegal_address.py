"""Its kernel writes where nothing is.

number: 26
problem: row_softmax
verdict: crashed
"""

from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void astray(float* y) { y[(1ll << 40) + threadIdx.x] = 1.0f; }
torch::Tensor row_softmax(torch::Tensor x) {
    auto y = torch::empty_like(x);
    astray<<<1, 32>>>(y.data_ptr<float>());
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
