"""A CUDA graph over memory of its own, into which each call copies its input.

problem: row_softmax
verdict: passed
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graphs = {}

    def forward(self, x):
        if x.shape not in self.graphs:
            held = x.clone()
            torch.softmax(held, dim=1)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = torch.softmax(held, dim=1)
            self.graphs[x.shape] = (graph, held, result)
        graph, held, result = self.graphs[x.shape]
        held.copy_(x)
        graph.replay()
        return result.clone()
