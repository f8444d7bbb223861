"""Expected place of the peak in heat maps."""

import torch


def soft_argmax(heat):
    n, k, h, w = heat.shape
    share = torch.softmax(heat.flatten(2), -1).view(n, k, h, w)
    across = torch.arange(w, device=heat.device, dtype=heat.dtype)
    down = torch.arange(h, device=heat.device, dtype=heat.dtype)
    return torch.stack(((share.sum(2) * across).sum(-1), (share.sum(3) * down).sum(-1)), -1)


inputs = [torch.randn(32, 17, 96, 72)]
