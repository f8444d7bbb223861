"""Right, but uses its input as workspace: whoever runs next on it is wrong.

number: 16
problem: row_softmax
verdict: hazard
"""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        x.sub_(x.max(dim=1, keepdim=True).values).exp_()
        return x / x.sum(dim=1, keepdim=True)
