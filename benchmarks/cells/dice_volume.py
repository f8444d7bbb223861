"""Dice loss of every class of a segmented volume."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class DiceVolume(nn.Module):
    def __init__(self, smooth=1e-5):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, labels):
        classes = logits.shape[1]
        probs = F.softmax(logits, dim=1)
        target = F.one_hot(labels, num_classes=classes).permute(0, 4, 1, 2, 3).float()
        dims = (2, 3, 4)
        intersection = (probs * target).sum(dims)
        union = probs.sum(dims) + target.sum(dims)
        dice = (2.0 * intersection + self.smooth) / (union + self.smooth)
        return 1 - dice[:, 1:].mean()


inputs = [torch.randn(2, 4, 96, 128, 128), torch.randint(0, 4, (2, 96, 128, 128))]
