"""A film's response: a foot, a straight part and a shoulder, each put where its mask says."""

import torch


def three_piece_response(x, foot, shoulder, gain):
    y = torch.empty_like(x)
    low, high = x < foot, x > shoulder
    middle = ~low & ~high
    y[low] = gain * x[low].clamp(min=0).square() / (2 * foot)
    y[middle] = gain * (x[middle] - foot / 2)
    y[high] = gain * (shoulder - foot / 2 + 0.3 * torch.tanh((x[high] - shoulder) / 0.3))
    assert (shoulder > foot).all()
    return y


inputs = [torch.rand(16, 3, 512, 512) * 1.5, torch.tensor(0.1), torch.tensor(0.8), torch.tensor(1.1)]
