"""Local normalised cross-correlation of two volumes, as registration networks are trained on it."""

import torch
import torch.nn.functional as F


def local_ncc(fixed, moving):
    win = 9
    filt = torch.ones(1, 1, win, win, win, device=fixed.device)
    pad = win // 2
    sums = [
        F.conv3d(t, filt, padding=pad)
        for t in (fixed, moving, fixed * fixed, moving * moving, fixed * moving)
    ]
    i_sum, j_sum, i2, j2, ij = sums
    n = win**3
    u_i, u_j = i_sum / n, j_sum / n
    cross = ij - u_j * i_sum - u_i * j_sum + u_i * u_j * n
    i_var = i2 - 2 * u_i * i_sum + u_i * u_i * n
    j_var = j2 - 2 * u_j * j_sum + u_j * u_j * n
    return -torch.mean(cross * cross / (i_var * j_var + 1e-5))


inputs = [torch.rand(1, 1, 96, 96, 96), torch.rand(1, 1, 96, 96, 96)]
