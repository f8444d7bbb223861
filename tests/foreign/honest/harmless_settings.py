"""Turns on cuDNN's search and turns off gradients: neither changes a number.

problem: row_softmax
verdict: passed
"""

import torch
from torch import nn

torch.backends.cudnn.benchmark = True
torch.set_grad_enabled(False)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
