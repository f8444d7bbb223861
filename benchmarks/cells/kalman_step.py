"""A step of Kalman filters with constant velocity: predict, gate, and take a position in."""

import torch


class KalmanStep(torch.nn.Module):
    def __init__(self, dt=0.1, q=0.5, r=0.2):
        super().__init__()
        f = torch.eye(4)
        f[0, 2] = f[1, 3] = dt
        self.register_buffer("F", f)
        self.register_buffer("H", torch.eye(2, 4))
        self.register_buffer("Q", q * torch.diag(torch.tensor([dt**3 / 3, dt**3 / 3, dt, dt])))
        self.register_buffer("R", r * torch.eye(2))

    def forward(self, x, P, z):
        x = x @ self.F.T
        P = self.F @ P @ self.F.T + self.Q
        y = z - x @ self.H.T
        S = self.H @ P @ self.H.T + self.R
        det = S[:, 0, 0] * S[:, 1, 1] - S[:, 0, 1] * S[:, 1, 0]
        S_inv = torch.stack([S[:, 1, 1], -S[:, 0, 1], -S[:, 1, 0], S[:, 0, 0]], -1).view(-1, 2, 2)
        S_inv = S_inv / det[:, None, None]
        gate = torch.einsum("bi,bij,bj->b", y, S_inv, y)
        K = P @ self.H.T @ S_inv
        ok = (gate < 9.21).view(-1, 1)
        x = torch.where(ok, x + (K @ y.unsqueeze(-1)).squeeze(-1), x)
        P = torch.where(ok.unsqueeze(-1), P - K @ self.H @ P, P)
        return x, P, gate


inputs = [
    torch.randn(200000, 4),
    torch.eye(4).expand(200000, 4, 4) + 0.1,
    torch.randn(200000, 2),
]
