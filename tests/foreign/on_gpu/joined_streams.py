"""Two streams, forked and joined as they should be.

number:
problem: row_softmax
verdict: passed
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        current, side = torch.cuda.current_stream(), torch.cuda.Stream()
        result, half = torch.empty_like(x), x.shape[0] // 2
        side.wait_stream(current)
        with torch.cuda.stream(side):
            result[:half] = torch.softmax(x[:half], dim=1)
        result[half:] = torch.softmax(x[half:], dim=1)
        current.wait_stream(side)
        return result
