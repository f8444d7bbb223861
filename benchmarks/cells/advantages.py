"""Generalised advantages: discounted sums from the end."""

import torch


def advantages(rewards, values, done):
    later = torch.cat((values[:, 1:], torch.zeros_like(values[:, :1])), 1)
    deltas = rewards + 0.99 * later * (1 - done) - values
    found = [torch.zeros_like(deltas[:, 0])]
    for step in range(deltas.shape[1] - 1, -1, -1):
        found.append(deltas[:, step] + 0.9405 * (1 - done[:, step]) * found[-1])
    return torch.stack(found[:0:-1], 1)


inputs = [torch.randn(4096, 64), torch.randn(4096, 64), torch.rand(4096, 64).lt(0.05).float()]
