"""Cloud-in-cell mass deposition of particles on a periodic mesh and the force interpolated back."""

import torch


class CloudInCell(torch.nn.Module):
    def __init__(self, mesh=96, box=100.0):
        super().__init__()
        self.mesh, self.box = mesh, box

    def corners(self, pos):
        n = self.mesh
        cell = pos / self.box * n - 0.5
        base = torch.floor(cell)
        frac = cell - base
        base = base.long()
        for dx in (0, 1):
            for dy in (0, 1):
                for dz in (0, 1):
                    shift = torch.tensor([dx, dy, dz], device=pos.device)
                    idx = (base + shift) % n
                    w = torch.where(shift.bool(), frac, 1.0 - frac).prod(dim=-1)
                    yield (idx[:, 0] * n + idx[:, 1]) * n + idx[:, 2], w

    def forward(self, pos, mass):
        n = self.mesh
        rho = torch.zeros(n**3, dtype=mass.dtype, device=mass.device)
        for flat, w in self.corners(pos):
            rho.scatter_add_(0, flat, mass * w)
        delta = rho / rho.mean() - 1.0
        grid = delta.view(n, n, n)
        grad = torch.stack(
            [(torch.roll(grid, -1, a) - torch.roll(grid, 1, a)) * 0.5 for a in range(3)], dim=-1
        ).view(-1, 3)
        force = torch.zeros_like(pos)
        for flat, w in self.corners(pos):
            force += grad.index_select(0, flat) * w.unsqueeze(-1)
        return grid, -force * (n / self.box)


inputs = [torch.rand(500000, 3) * 100.0, torch.rand(500000) + 0.5]
