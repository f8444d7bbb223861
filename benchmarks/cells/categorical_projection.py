"""The projection of a distributional Q-learning target onto its fixed atoms."""

import torch


def categorical_projection(next_dist, rewards, dones):
    v_min, v_max, atoms, gamma = -10.0, 10.0, 51, 0.99
    delta_z = (v_max - v_min) / (atoms - 1)
    support = torch.linspace(v_min, v_max, atoms, device=next_dist.device)
    tz = rewards.unsqueeze(1) + (1 - dones.float()).unsqueeze(1) * gamma * support.unsqueeze(0)
    tz = tz.clamp(min=v_min, max=v_max)
    b = (tz - v_min) / delta_z
    lower, upper = b.floor().long(), b.ceil().long()
    lower[(upper > 0) * (lower == upper)] -= 1
    upper[(lower < (atoms - 1)) * (lower == upper)] += 1
    batch = next_dist.size(0)
    offset = (torch.arange(batch, device=next_dist.device) * atoms).unsqueeze(1).expand(batch, atoms)
    m = next_dist.new_zeros(batch, atoms)
    m.view(-1).index_add_(0, (lower + offset).view(-1), (next_dist * (upper.float() - b)).view(-1))
    m.view(-1).index_add_(0, (upper + offset).view(-1), (next_dist * (b - lower.float())).view(-1))
    return m


inputs = [
    torch.softmax(torch.randn(65536, 51), -1),
    torch.randn(65536),
    torch.rand(65536) < 0.1,
]
