"""One Metropolis sweep of many Ising lattices on a checkerboard, with energy and magnetisation."""

import torch


class IsingSweep(torch.nn.Module):
    def __init__(self, size=512, field=0.01):
        super().__init__()
        self.field = field
        i = torch.arange(size)
        self.register_buffer("black", ((i[:, None] + i[None, :]) % 2 == 0))

    @staticmethod
    def neighbours(s):
        return torch.roll(s, 1, -1) + torch.roll(s, -1, -1) + torch.roll(s, 1, -2) + torch.roll(s, -1, -2)

    def forward(self, spins, uniform, beta):
        b = beta.view(-1, 1, 1)
        accepted = torch.zeros_like(beta)
        for colour in range(2):
            mask = self.black if colour == 0 else ~self.black
            local = self.neighbours(spins).float() + self.field
            delta = 2.0 * spins.float() * local
            flip = (uniform < torch.exp(-b * delta)) & mask
            spins = torch.where(flip, -spins, spins)
            accepted = accepted + flip.float().mean(dim=(1, 2))
        right_down = torch.roll(spins, -1, -1) + torch.roll(spins, -1, -2)
        energy = -(spins * right_down).sum(dim=(1, 2), dtype=torch.int32).float()
        magnet = spins.sum(dim=(1, 2), dtype=torch.int32).float() / spins[0].numel()
        return spins, energy - self.field * magnet * spins[0].numel(), magnet, accepted


inputs = [
    (torch.randint(0, 2, (64, 512, 512)) * 2 - 1).to(torch.int8),
    torch.rand(64, 512, 512),
    torch.rand(64) * 0.4 + 0.2,
]
