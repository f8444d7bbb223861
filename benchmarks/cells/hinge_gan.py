"""The discriminator's hinge loss over maps of scores."""

import torch


def hinge_gan(real, fake):
    return torch.relu(1 - real).mean() + torch.relu(1 + fake).mean()


inputs = [torch.randn(64, 1, 512, 512), torch.randn(64, 1, 512, 512)]
