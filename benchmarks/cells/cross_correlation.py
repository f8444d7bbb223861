"""Normalised cross-correlation of pairs of flat images, as registration of scans maximises it."""

import torch


def cross_correlation(fixed, moving):
    fixed = (fixed - fixed.mean(1, keepdim=True)) / (fixed.std(1, keepdim=True) + 1e-5)
    moving = (moving - moving.mean(1, keepdim=True)) / (moving.std(1, keepdim=True) + 1e-5)
    return (fixed * moving).mean(1)


inputs = [torch.randn(64, 512 * 512), torch.randn(64, 512 * 512)]
