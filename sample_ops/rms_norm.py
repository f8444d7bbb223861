"""RMS norm as in Llama: divide a row by its root mean square, times a learnt weight.

Why it is interesting: written in plain PyTorch it is six operations and six trips to memory; in one kernel
it is one read and one write. No mean is subtracted, so there is no cancellation to fear.

Look for: launches (one instead of six), bytes against the minimum, and the weight vector, which every row
reads again from L2.
"""

import torch


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * weight


inputs = [torch.randn(8192, 4096), torch.randn(4096), 1e-6]
shapes = [(16, 4096), (2048, 8192)]
