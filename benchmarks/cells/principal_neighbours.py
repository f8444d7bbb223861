"""Messages of a node's neighbours aggregated four ways, scaled by its degree."""

import torch


def principal_neighbours(messages, index, degree):
    n, f = degree.shape[0], messages.shape[1]
    idx = index.view(-1, 1).expand(-1, f)
    zeros = messages.new_zeros(n, f)
    deg = degree.clamp(min=1).view(-1, 1)
    mean = zeros.scatter_add(0, idx, messages) / deg
    sq = zeros.scatter_add(0, idx, messages * messages) / deg
    std = torch.sqrt(torch.relu(sq - mean * mean) + 1e-5)
    top = zeros.scatter_reduce(0, idx, messages, reduce="amax", include_self=False)
    low = zeros.scatter_reduce(0, idx, messages, reduce="amin", include_self=False)
    out = torch.cat([mean, low, top, std], dim=-1)
    amp = torch.log(deg + 1) / 2.5
    return torch.cat([out, out * amp, out / amp], dim=-1)


inputs = [torch.randn(200000, 32), torch.randint(0, 25000, (200000,)), torch.randint(1, 16, (25000,)).float()]
