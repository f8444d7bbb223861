"""Colours to hue, saturation and value."""

import torch


def hsv(image):
    red, green, blue = image.unbind(1)
    value, place = image.max(1)
    spread = value - image.amin(1)
    safe = torch.where(spread == 0, torch.ones_like(spread), spread)
    hue = torch.stack(((green - blue) / safe % 6, (blue - red) / safe + 2, (red - green) / safe + 4), 1)
    hue = hue.gather(1, place[:, None]).squeeze(1) / 6
    return torch.stack((hue, spread / value.clamp_min(1e-8), value), 1)


inputs = [torch.rand(32, 3, 512, 512)]
