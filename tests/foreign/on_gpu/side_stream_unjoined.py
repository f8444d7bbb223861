"""Waits for its inputs, but returns before its stream has finished.

number: 6
problem: row_softmax
verdict: mismatch, suspect
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        result, side = torch.zeros_like(x), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)
            torch.softmax(x, dim=1, out=result)
        return result
