"""Never returns.

number: limits
problem: row_softmax
verdict: timed_out
call_s: 1
"""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            pass
