"""Replays a CUDA graph that reads the addresses of its first call.

number: 38
problem: row_softmax
verdict: mismatch
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graphs = {}

    def forward(self, x):
        if x.shape not in self.graphs:
            torch.softmax(x, dim=1)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = torch.softmax(x, dim=1)
            self.graphs[x.shape] = (graph, result)
        graph, result = self.graphs[x.shape]
        graph.replay()
        return result.clone()
