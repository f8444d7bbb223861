"""Pairwise ranking loss of users and two items each."""

import torch
from torch.nn import functional as F


def ranking_loss(users, items, good, bad):
    better = (users * items[good]).sum(-1) - (users * items[bad]).sum(-1)
    return F.softplus(-better).mean()


inputs = [
    torch.randn(65536, 64),
    torch.randn(50000, 64),
    torch.randint(0, 50000, (65536,)),
    torch.randint(0, 50000, (65536,)),
]
