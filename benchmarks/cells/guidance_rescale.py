"""A step of DDIM with classifier-free guidance, rescaled to the spread of what was conditioned."""

import torch


def guidance_rescale(latent, noise, alpha, alpha_prev):
    uncond, cond = noise.chunk(2)
    guided = uncond + 7.5 * (cond - uncond)
    dims = list(range(1, cond.ndim))
    std_text = cond.std(dim=dims, keepdim=True)
    std_cfg = guided.std(dim=dims, keepdim=True)
    guided = 0.7 * guided * (std_text / std_cfg) + 0.3 * guided
    alpha, alpha_prev = alpha.view(-1, 1, 1, 1), alpha_prev.view(-1, 1, 1, 1)
    clean = (latent - (1 - alpha).sqrt() * guided) / alpha.sqrt()
    return alpha_prev.sqrt() * clean + (1 - alpha_prev).sqrt() * guided


inputs = [
    torch.randn(16, 16, 128, 128),
    torch.randn(32, 16, 128, 128),
    torch.rand(16) * 0.9 + 0.05,
    torch.rand(16) * 0.9 + 0.05,
]
