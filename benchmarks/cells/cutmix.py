"""CutMix: a box of another image of the batch in each, and the labels' shares."""

import torch


def cutmix(images, labels, order, boxes):
    height, width = images.shape[2:]
    ys = torch.arange(height, device=images.device).view(1, height, 1)
    xs = torch.arange(width, device=images.device).view(1, 1, width)
    x1, y1, x2, y2 = (edge.view(-1, 1, 1) for edge in boxes.unbind(1))
    inside = (ys >= y1) & (ys < y2) & (xs >= x1) & (xs < x2)
    mixed = torch.where(inside.unsqueeze(1), images[order], images)
    share = inside.float().mean((1, 2)).unsqueeze(1)
    return mixed, labels * (1 - share) + labels[order] * share


corner = torch.randint(0, 112, (128, 2))
inputs = [
    torch.randn(128, 3, 224, 224, dtype=torch.float16),
    torch.softmax(torch.randn(128, 1000), -1),
    torch.randperm(128),
    torch.cat((corner, corner + torch.randint(16, 112, (128, 2))), 1),
]
