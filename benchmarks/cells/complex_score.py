"""Scores of triples by ComplEx and RotatE, embeddings looked up by index."""

import torch
from torch import nn


class Scores(nn.Module):
    def __init__(self, entities=40000, relations=500, dim=256):
        super().__init__()
        self.entity = nn.Parameter(torch.randn(entities, dim, 2) * 0.1)
        self.phase = nn.Parameter(torch.randn(relations, dim))

    def forward(self, head, relation, tail):
        h = torch.view_as_complex(self.entity[head])
        t = torch.view_as_complex(self.entity[tail])
        phase = self.phase[relation]
        r = torch.polar(torch.ones_like(phase), phase)
        return (h * r * t.conj()).real.sum(-1), -(h * r - t).abs().sum(-1)


inputs = [torch.randint(0, 40000, (8192,)), torch.randint(0, 500, (8192,)), torch.randint(0, 40000, (8192,))]
