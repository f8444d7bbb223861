"""Graph attention: a softmax over the edges that lead to the same node, for 8 heads."""

import torch
import torch.nn.functional as F


def edge_softmax(source, target, left, right):
    scores = F.leaky_relu(left[source] + right[target], 0.2)
    nodes, heads = left.shape
    index = target.unsqueeze(-1).expand(-1, heads)
    top = torch.full((nodes, heads), float("-inf"), device=scores.device)
    top = top.scatter_reduce(0, index, scores, reduce="amax")
    spread = torch.exp(scores - top[target])
    total = torch.zeros(nodes, heads, device=scores.device).index_add(0, target, spread)
    return spread / (total[target] + 1e-16)


inputs = [
    torch.randint(0, 50000, (800000,)),
    torch.randint(0, 50000, (800000,)),
    torch.randn(50000, 8),
    torch.randn(50000, 8),
]
