"""Deep interest network: a candidate beside a history, [q, k, q-k, q*k] through an MLP, masked, summed."""

import torch
import torch.nn as nn


class Dice(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bn = nn.BatchNorm1d(dim, eps=1e-8)
        self.alpha = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        p = torch.sigmoid(self.bn(x))
        return ((1 - p) * self.alpha * x + p * x).view(shape)


class DinAttention(nn.Module):
    def __init__(self, dim=32, hidden=36, items=100_000):
        super().__init__()
        self.item = nn.Embedding(items, dim, padding_idx=0)
        self.fc1, self.fc2 = nn.Linear(4 * dim, hidden), nn.Linear(hidden, 1)
        self.dice = Dice(hidden)
        self.eval()

    def forward(self, target, history):
        q = self.item(target).unsqueeze(1)
        k = self.item(history)
        q = q.expand_as(k)
        a = torch.cat([q, k, q - k, q * k], dim=-1)
        s = self.fc2(self.dice(self.fc1(a))).squeeze(-1)
        s = s.masked_fill(history == 0, 0.0)
        return torch.bmm(s.unsqueeze(1), k).squeeze(1)


inputs = [torch.randint(1, 100_000, (4096,)), torch.randint(0, 100_000, (4096, 100))]
