"""C++ of its own through load_inline, as KernelBench solutions bring it.

problem: row_softmax
cpu_only: yes
verdict: passed
"""

from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
torch::Tensor row_softmax(torch::Tensor x) {
    auto in = x.contiguous();
    auto y = torch::empty_like(in);
    const float* a = in.data_ptr<float>();
    float* b = y.data_ptr<float>();
    const int64_t rows = in.size(0), cols = in.size(1);
    for (int64_t r = 0; r < rows; ++r, a += cols, b += cols) {
        float m = -INFINITY, s = 0;
        for (int64_t i = 0; i < cols; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
        for (int64_t i = 0; i < cols; ++i) s += b[i] = std::exp(a[i] - m);
        for (int64_t i = 0; i < cols; ++i) b[i] /= s;
    }
    return y;
}
"""
module = load_inline(name="row_softmax", cpp_sources=SOURCE, functions=["row_softmax"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_softmax(x)
