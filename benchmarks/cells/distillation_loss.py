"""KL divergence of a student from its teacher at a temperature."""

import torch
from torch.nn import functional as F


def distillation_loss(student, teacher):
    return F.kl_div(F.log_softmax(student / 4, -1), F.softmax(teacher / 4, -1), reduction="batchmean") * 16


inputs = [torch.randn(4096, 1000), torch.randn(4096, 1000)]
