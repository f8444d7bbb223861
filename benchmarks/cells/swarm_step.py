"""A step of particle swarm optimisation on Rastrigin's function, written for one point and vmapped."""

import math

import torch


def rastrigin(x):
    return 10.0 * x.shape[0] + (x**2 - 10.0 * torch.cos(2 * math.pi * x)).sum()


def swarm_step(pos, vel, best, best_val, leader, r1, r2, inertia=0.72, c1=1.49, c2=1.49, vmax=1.0):
    v = inertia * vel + c1 * r1 * (best - pos) + c2 * r2 * (leader - pos)
    v = v.clamp(-vmax, vmax)
    p = pos + v
    out = (p < -5.12) | (p > 5.12)
    p = p.clamp(-5.12, 5.12)
    v = torch.where(out, -0.5 * v, v)
    val = torch.vmap(rastrigin)(p)
    better = val < best_val
    return p, v, torch.where(better[:, None], p, best), torch.minimum(val, best_val)


inputs = [
    torch.rand(150000, 12) * 10 - 5,
    torch.randn(150000, 12) * 0.3,
    torch.rand(150000, 12) * 10 - 5,
    torch.rand(150000) * 400,
    torch.randn(12),
    torch.rand(150000, 12),
    torch.rand(150000, 12),
]
