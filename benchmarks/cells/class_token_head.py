"""The head of a vision transformer: every token's norm, the first token of each image, a linear layer."""

import torch
import torch.nn as nn


class ClassTokenHead(nn.Module):
    def __init__(self, dim=768, classes=1000):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.norm(x)[:, 0])


inputs = [torch.randn(256, 197, 768)]
