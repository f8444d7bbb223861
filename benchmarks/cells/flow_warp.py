"""A frame warped back by a flow, and the mask of what is seen in both."""

import torch
import torch.nn.functional as F


def flow_warp(image, flow):
    h, w = image.shape[-2:]
    ys, xs = torch.meshgrid(
        torch.arange(h, device=image.device), torch.arange(w, device=image.device), indexing="ij"
    )
    grid = torch.stack((xs, ys), dim=0).float().unsqueeze(0) + flow
    gx = 2.0 * grid[:, 0] / max(w - 1, 1) - 1.0
    gy = 2.0 * grid[:, 1] / max(h - 1, 1) - 1.0
    vgrid = torch.stack((gx, gy), dim=-1)
    warped = F.grid_sample(image, vgrid, mode="bilinear", padding_mode="zeros", align_corners=True)
    inside = (gx.abs() <= 1) & (gy.abs() <= 1)
    return warped * inside.unsqueeze(1), inside.float()


inputs = [torch.rand(8, 3, 512, 768), torch.randn(8, 2, 512, 768) * 5]
