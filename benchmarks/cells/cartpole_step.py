"""Vectorised cart-pole environment: one step with termination, truncation and automatic reset."""

import math

import torch


class CartPoleStep(torch.nn.Module):
    def __init__(self, max_steps=500, tau=0.02, kinematics="euler"):
        super().__init__()
        self.gravity, self.masscart, self.masspole, self.length = 9.8, 1.0, 0.1, 0.5
        self.total_mass = self.masspole + self.masscart
        self.polemass_length = self.masspole * self.length
        self.force_mag, self.tau, self.max_steps, self.kinematics = 10.0, tau, max_steps, kinematics
        self.x_threshold, self.theta_threshold = 2.4, 12 * 2 * math.pi / 360

    def forward(self, state, action, steps, episode_return, fresh):
        x, x_dot, theta, theta_dot = state.unbind(-1)
        force = torch.where(action == 1, self.force_mag, -self.force_mag)
        cos, sin = torch.cos(theta), torch.sin(theta)
        temp = (force + self.polemass_length * theta_dot**2 * sin) / self.total_mass
        theta_acc = (self.gravity * sin - cos * temp) / (
            self.length * (4.0 / 3.0 - self.masspole * cos**2 / self.total_mass)
        )
        x_acc = temp - self.polemass_length * theta_acc * cos / self.total_mass
        if self.kinematics == "euler":
            x, x_dot = x + self.tau * x_dot, x_dot + self.tau * x_acc
            theta, theta_dot = theta + self.tau * theta_dot, theta_dot + self.tau * theta_acc
        else:
            x_dot = x_dot + self.tau * x_acc
            x = x + self.tau * x_dot
            theta_dot = theta_dot + self.tau * theta_acc
            theta = theta + self.tau * theta_dot
        obs = torch.stack((x, x_dot, theta, theta_dot), dim=-1)
        terminated = (x < -self.x_threshold) | (x > self.x_threshold) | (theta.abs() > self.theta_threshold)
        steps = steps + 1
        truncated = (steps >= self.max_steps) & ~terminated
        done = terminated | truncated
        reward = torch.ones_like(x)
        episode_return = episode_return + reward
        finished = torch.where(done, episode_return, torch.zeros_like(episode_return))
        next_state = torch.where(done.unsqueeze(-1), fresh, obs)
        return next_state, reward, terminated, truncated, steps * (~done), episode_return * (~done), finished


inputs = [
    torch.randn(1000000, 4) * 0.2,
    torch.randint(0, 2, (1000000,)),
    torch.randint(0, 500, (1000000,), dtype=torch.int32),
    torch.rand(1000000) * 500,
    (torch.rand(1000000, 4) - 0.5) * 0.1,
]
