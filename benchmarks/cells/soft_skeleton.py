"""Centreline Dice (clDice) loss for vessel segmentation: skeletons by repeated soft erosion."""

import torch
import torch.nn.functional as F


class SoftCentrelineDice(torch.nn.Module):
    def __init__(self, iterations=3, smooth=1.0):
        super().__init__()
        self.iterations, self.smooth = iterations, smooth

    def soft_erode(self, img):
        p1 = -F.max_pool3d(-img, (3, 1, 1), (1, 1, 1), (1, 0, 0))
        p2 = -F.max_pool3d(-img, (1, 3, 1), (1, 1, 1), (0, 1, 0))
        p3 = -F.max_pool3d(-img, (1, 1, 3), (1, 1, 1), (0, 0, 1))
        return torch.min(torch.min(p1, p2), p3)

    def soft_open(self, img):
        return F.max_pool3d(self.soft_erode(img), (3, 3, 3), (1, 1, 1), (1, 1, 1))

    def soft_skel(self, img):
        skel = F.relu(img - self.soft_open(img))
        for _ in range(self.iterations):
            img = self.soft_erode(img)
            delta = F.relu(img - self.soft_open(img))
            skel = skel + F.relu(delta - skel * delta)
        return skel

    def forward(self, logits, target):
        pred = torch.softmax(logits, dim=1)[:, 1:]
        true = (target == 1).unsqueeze(1).to(pred.dtype)
        skel_pred, skel_true = self.soft_skel(pred), self.soft_skel(true)
        axes = (1, 2, 3, 4)
        tprec = ((skel_pred * true).sum(axes) + self.smooth) / (skel_pred.sum(axes) + self.smooth)
        tsens = ((skel_true * pred).sum(axes) + self.smooth) / (skel_true.sum(axes) + self.smooth)
        return (1.0 - 2.0 * (tprec * tsens) / (tprec + tsens)).mean(), skel_pred.squeeze(1).amax(dim=1)


inputs = [torch.randn(2, 2, 64, 96, 96), torch.randint(0, 3, (2, 64, 96, 96), dtype=torch.uint8)]
