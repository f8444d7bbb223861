"""Kalman updates of many objects: four states, two of which are measured, and the gain of each."""

import torch


def filter_gain(state, covariance, measured, noise):
    seen = covariance[:, :2, :2] + noise
    gain = torch.linalg.solve(seen, covariance[:, :2, :]).transpose(1, 2)
    wrong = measured - state[:, :2]
    updated = state + (gain @ wrong.unsqueeze(-1)).squeeze(-1)
    return updated, covariance - gain @ covariance[:, :2, :]


def symmetric(count, size):
    root = torch.randn(count, size, size)
    return root @ root.transpose(1, 2) + torch.eye(size)


inputs = [torch.randn(200000, 4), symmetric(200000, 4), torch.randn(200000, 2), symmetric(200000, 2)]
