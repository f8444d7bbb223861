"""A graph's edges: one end's features, and the difference from the other's."""

import torch


def edge_features(x, source, target):
    return torch.cat((x[source], x[target] - x[source]), -1)


inputs = [torch.randn(20000, 64), torch.randint(0, 20000, (200000,)), torch.randint(0, 20000, (200000,))]
