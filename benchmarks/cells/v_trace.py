"""V-trace targets and advantages of batches of trajectories."""

import torch


def v_trace(log_rhos, discounts, rewards, values, bootstrap):
    rhos = torch.exp(log_rhos)
    clipped = torch.clamp(rhos, max=1.0)
    values_next = torch.cat([values[1:], bootstrap.unsqueeze(0)], dim=0)
    deltas = clipped * (rewards + discounts * values_next - values)
    acc = torch.zeros_like(bootstrap)
    result = []
    for t in range(discounts.shape[0] - 1, -1, -1):
        acc = deltas[t] + discounts[t] * clipped[t] * acc
        result.append(acc)
    result.reverse()
    vs = torch.stack(result) + values
    vs_next = torch.cat([vs[1:], bootstrap.unsqueeze(0)], dim=0)
    return vs, clipped * (rewards + discounts * vs_next - values)


inputs = [
    torch.randn(32, 65536) * 0.2,
    torch.rand(32, 65536).gt(0.02).float() * 0.99,
    torch.randn(32, 65536),
    torch.randn(32, 65536),
    torch.randn(65536),
]
