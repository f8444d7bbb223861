"""KTO: prospect-theoretic loss of single liked or disliked completions; a baseline of mismatched pairs."""

import torch
import torch.nn.functional as F
from torch import Tensor


def sequence_logps(
    token_logps: Tensor, labels: Tensor, ignore_index: int = -100, average: bool = False
) -> Tensor:
    keep = labels != ignore_index
    summed = (token_logps.float() * keep).sum(-1)
    return summed / keep.sum(-1).clamp(min=1) if average else summed


def kto_loss(
    policy: Tensor,
    reference: Tensor,
    kl_policy: Tensor,
    kl_reference: Tensor,
    labels: Tensor,
    desirable: Tensor,
    weights: Tensor | None = None,
    beta: float = 0.1,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.33,
) -> tuple[Tensor, Tensor, Tensor]:
    assert policy.shape == reference.shape == labels.shape, f"{policy.shape} against {labels.shape}"
    # the baseline pairs each prompt with the next completion, so its labels are rolled by one
    rolled = labels.roll(1, dims=0)
    kl = (sequence_logps(kl_policy, rolled) - sequence_logps(kl_reference, rolled)).mean().clamp(min=0)
    reward = sequence_logps(policy, labels) - sequence_logps(reference, labels)
    good = 1 - torch.sigmoid(beta * (reward - kl))
    bad = 1 - F.sigmoid(beta * (kl - reward))
    losses = torch.where(desirable, desirable_weight * good, undesirable_weight * bad)
    if weights is not None:
        losses = losses * weights
    return losses.mean(), beta * reward, kl


_labels = torch.randint(0, 32000, (256, 4096), dtype=torch.int32)
_labels[:, :300] = -100
_base = -torch.rand(256, 4096) * 2
inputs = [
    (_base + 0.01 * torch.randn(256, 4096)).half(),
    _base.half(),
    (_base + 0.01 * torch.randn(256, 4096)).half(),
    _base.half(),
    _labels,
    torch.rand(256) < 0.6,
]
