"""Model predictive path integrals: 4096 rollouts of a vehicle, 20 steps each, and how to steer."""

import torch


def steering_rollouts(state, plan, noise, goal):
    x, y, heading, speed = state.unbind(-1)
    controls = (plan + noise).clamp(-1.0, 1.0)
    cost = torch.zeros_like(x)
    for step in range(20):
        turn, push = controls[:, step, 0], controls[:, step, 1]
        heading = heading + 0.1 * speed * torch.tan(0.5 * turn) / 2.7
        speed = (speed + 0.1 * 3.0 * push).clamp(0.0, 12.0)
        x = x + 0.1 * speed * torch.cos(heading)
        y = y + 0.1 * speed * torch.sin(heading)
        cost = cost + (x - goal[0]) ** 2 + (y - goal[1]) ** 2 + 0.1 * turn**2 + 0.05 * push**2
    weights = torch.softmax(-(cost - cost.min()) / 50.0, 0)
    return plan + (weights[:, None, None] * noise).sum(0)


inputs = [
    torch.randn(4096, 4) * 0.1 + torch.tensor([0.0, 0.0, 0.0, 5.0]),
    torch.zeros(20, 2),
    torch.randn(4096, 20, 2) * 0.3,
    torch.tensor([8.0, 3.0]),
]
