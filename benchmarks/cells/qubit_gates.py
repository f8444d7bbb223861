"""A state of twenty-two qubits: a rotation of one of them, then a controlled phase on two others."""

import math

import torch


class QubitGates(torch.nn.Module):
    def __init__(self, qubits=22, target=9, control=3, other=15):
        super().__init__()
        self.qubits, self.target, self.control, self.other = qubits, target, control, other
        self.theta = torch.nn.Parameter(torch.tensor(0.3))

    def forward(self, state):
        n, t = self.qubits, self.target
        psi = state.reshape(2**t, 2, 2 ** (n - t - 1), 2)
        c, s = torch.cos(self.theta / 2), torch.sin(self.theta / 2)
        gate = torch.stack([torch.stack([c, -s]), torch.stack([s, c])])
        psi = torch.einsum("ij,ajbr->aibr", gate, psi).reshape(-1, 2)
        index = torch.arange(psi.shape[0], device=state.device)
        both = ((index >> self.control) & (index >> self.other) & 1).bool()
        re, im = psi[:, 0], psi[:, 1]
        cp, sp = math.cos(math.pi / 4), math.sin(math.pi / 4)
        rotated = torch.stack([cp * re - sp * im, sp * re + cp * im], dim=-1)
        return torch.where(both[:, None], rotated, psi)


inputs = [torch.randn(1 << 22, 2) * 2**-11]
