"""A linear recurrent unit over a chunk of 16 steps: complex, diagonal."""

import torch


def lru_chunk(x, nu, theta, gamma):
    turn = torch.polar(torch.exp(-torch.exp(nu)), theta)
    h = torch.zeros_like(x[:, 0]) * turn
    states = []
    for t in range(16):
        h = turn * h + gamma * x[:, t]
        states.append(h.real)
    return torch.stack(states, 1)


inputs = [torch.randn(512, 16, 1024), torch.randn(1024), torch.randn(1024), torch.rand(1024)]
