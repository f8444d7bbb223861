"""The loss of a duelling double Q network with importance weights, and new priorities."""

import torch
import torch.nn.functional as F


def double_q(value, advantage, next_online, next_target, actions, rewards, dones, weights):
    q = value + advantage - advantage.mean(dim=1, keepdim=True)
    q_sa = q.gather(1, actions.unsqueeze(1)).squeeze(1)
    best = next_online.argmax(dim=1, keepdim=True)
    next_q = next_target.gather(1, best).squeeze(1)
    target = rewards + 0.99 * next_q * (~dones)
    td = target - q_sa
    loss = (weights * F.smooth_l1_loss(q_sa, target, reduction="none")).mean()
    return loss, td.abs() + 1e-6


inputs = [
    torch.randn(131072, 1),
    torch.randn(131072, 18),
    torch.randn(131072, 18),
    torch.randn(131072, 18),
    torch.randint(0, 18, (131072,)),
    torch.randn(131072),
    torch.rand(131072) < 0.05,
    torch.rand(131072),
]
