"""One program a row, in Triton.

problem: large_softmax
timed: yes
verdict: passed
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_gemm_free(x, y, cols, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    held = at < cols
    values = tl.load(x + row * cols + at, mask=held, other=float("-inf"))
    top = tl.max(values, axis=0)
    top = tl.where(tl.sum((values != values).to(tl.int32), axis=0) > 0, float("nan"), top)
    powers = tl.exp(values - top)
    tl.store(y + row * cols + at, powers / tl.sum(powers, axis=0), mask=held)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, cols = x.shape
        softmax_gemm_free[(rows,)](x, y, cols, BLOCK=triton.next_power_of_2(cols), num_warps=8)
        return y
