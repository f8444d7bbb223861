"""A step of the lattice Boltzmann method in the plane: collide, then stream, nine velocities."""

import torch


class LatticeBoltzmann(torch.nn.Module):
    def __init__(self, tau=0.6):
        super().__init__()
        self.tau = tau
        self.register_buffer(
            "c", torch.tensor([[0, 1, 0, -1, 0, 1, -1, -1, 1], [0, 0, 1, 0, -1, 1, 1, -1, -1]]).float()
        )
        self.register_buffer("w", torch.tensor([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4))

    def forward(self, f):
        rho = f.sum(0)
        ux = torch.einsum("i,ixy->xy", self.c[0], f) / rho
        uy = torch.einsum("i,ixy->xy", self.c[1], f) / rho
        usq = ux**2 + uy**2
        cu = 3 * (self.c[0].view(9, 1, 1) * ux + self.c[1].view(9, 1, 1) * uy)
        feq = self.w.view(9, 1, 1) * rho * (1 + cu + 0.5 * cu**2 - 1.5 * usq)
        f = f - (f - feq) / self.tau
        moves = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
        return torch.stack([torch.roll(f[i], shifts=s, dims=(0, 1)) for i, s in enumerate(moves)])


inputs = [torch.rand(9, 1024, 1024) * 0.1 + 0.1]
