"""DPM-Solver++ (2M) sampler step with guidance, v-prediction and thresholding."""

import torch


class DPMSolver2M(torch.nn.Module):
    def __init__(self, guidance=5.0, threshold=3.5):
        super().__init__()
        self.guidance, self.threshold = guidance, threshold

    def forward(self, sample, model_output, previous_x0, alphas, sigmas):
        uncond, cond = model_output.float().chunk(2)
        v = uncond + self.guidance * (cond - uncond)
        sample32 = sample.to(torch.float32)
        alpha_prev, alpha_s, alpha_t = alphas.view(3, -1, 1, 1, 1).unbind(0)
        sigma_prev, sigma_s, sigma_t = sigmas.view(3, -1, 1, 1, 1).unbind(0)
        x0 = alpha_s * sample32 - sigma_s * v
        s = x0.abs().flatten(1).amax(dim=1).clamp(min=1.0).view(-1, 1, 1, 1)
        limit = torch.minimum(s, torch.full_like(s, self.threshold))
        x0 = x0.clamp(-limit, limit)
        lambda_t = torch.log(alpha_t) - torch.log(sigma_t)
        lambda_s = torch.log(alpha_s) - torch.log(sigma_s)
        lambda_prev = torch.log(alpha_prev) - torch.log(sigma_prev)
        h, h0 = lambda_t - lambda_s, lambda_s - lambda_prev
        r0 = h0 / h
        d0 = x0
        d1 = (1.0 / r0) * (x0 - previous_x0.float())
        phi = torch.exp(-h) - 1.0
        prev_sample = (sigma_t / sigma_s) * sample32 - alpha_t * phi * d0 - 0.5 * alpha_t * phi * d1
        return prev_sample.to(sample.dtype), x0.to(sample.dtype)


inputs = [
    torch.randn(16, 16, 128, 128).half(),
    torch.randn(32, 16, 128, 128).half(),
    torch.randn(16, 16, 128, 128).half(),
    torch.rand(3, 16) * 0.1 + torch.tensor([[0.3], [0.5], [0.7]]),
    torch.rand(3, 16) * 0.1 + torch.tensor([[0.9], [0.75], [0.55]]),
]
