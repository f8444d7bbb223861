"""A recurrence of states, one a channel, over time."""

import torch


def selective_scan(decay, x):
    state, found = torch.zeros_like(x[:, 0]), []
    for step in range(x.shape[1]):
        state = decay[:, step] * state + x[:, step]
        found.append(state)
    return torch.stack(found, 1)


inputs = [torch.rand(16, 64, 4096), torch.randn(16, 64, 4096)]
