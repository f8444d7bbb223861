"""Protein backbone features: torsions as sine and cosine, virtual C-beta, directions."""

import torch
import torch.nn.functional as F


class BackboneFeatures(torch.nn.Module):
    def __init__(self, eps=1e-7):
        super().__init__()
        self.eps = eps

    def forward(self, X, chain, mask):
        b, length = X.shape[:2]
        backbone = X.reshape(b, 3 * length, 3)
        dX = backbone[:, 1:] - backbone[:, :-1]
        U = F.normalize(dX, dim=-1)
        u_2, u_1, u_0 = U[:, :-2], U[:, 1:-1], U[:, 2:]
        n_2 = F.normalize(torch.cross(u_2, u_1, dim=-1), dim=-1)
        n_1 = F.normalize(torch.cross(u_1, u_0, dim=-1), dim=-1)
        cosD = (n_2 * n_1).sum(-1).clamp(-1 + self.eps, 1 - self.eps)
        D = torch.sign((u_2 * n_1).sum(-1)) * torch.acos(cosD)
        D = F.pad(D, (1, 2), "constant", 0).view(b, length, 3)
        D_features = torch.cat((torch.cos(D), torch.sin(D)), dim=-1)
        n, ca, c = X.unbind(dim=2)
        bb, cc = ca - n, c - ca
        a = torch.cross(bb, cc, dim=-1)
        cb = -0.58273431 * a + 0.56802827 * bb - 0.54067466 * cc + ca
        same = (chain[:, 1:] == chain[:, :-1]) & mask[:, 1:] & mask[:, :-1]
        step = F.normalize(ca[:, 1:] - ca[:, :-1], dim=-1) * same.unsqueeze(-1)
        forward_dir, backward_dir = F.pad(step, (0, 0, 0, 1)), F.pad(-step, (0, 0, 1, 0))
        m = mask.unsqueeze(-1).to(X.dtype)
        directions = torch.stack(
            [forward_dir, backward_dir, F.normalize(cb - ca, dim=-1)], dim=-2
        ) * m.unsqueeze(-1)
        bond = (c[:, :-1] - n[:, 1:]).norm(dim=-1)
        breaks = ((bond > 2.0) & same).sum(dim=1)
        return D_features * m, directions, cb * m, breaks


inputs = [
    torch.randn(128, 2048, 3, 3) + torch.arange(2048).view(1, -1, 1, 1) * 3.8,
    torch.arange(2048).div(700, rounding_mode="floor").expand(128, 2048).contiguous(),
    torch.rand(128, 2048) > 0.05,
]
