"""Direct preference loss of sequences' log-probabilities."""

import torch
from torch.nn import functional as F


def preference_loss(chosen, rejected, chosen_before, rejected_before):
    gain = (chosen - chosen_before).sum(-1) - (rejected - rejected_before).sum(-1)
    return -F.logsigmoid(0.1 * gain).mean()


inputs = [torch.randn(512, 2048), torch.randn(512, 2048), torch.randn(512, 2048), torch.randn(512, 2048)]
