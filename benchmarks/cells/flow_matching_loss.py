import torch
import torch.nn as nn
import torch.nn.functional as F


class FlowMatchingLoss(nn.Module):
    """Rectified-flow loss of a latent transformer: tokens of 2x2 patches back to latents, logit-normal times,
    a resolution shift, a cosine term on the velocity's direction, and the loss by bin of time for the log."""

    def __init__(self, patch=2, channels=16, mean=0.0, std=1.0, shift=3.0, cosine=0.1, bins=10):
        super().__init__()
        self.patch, self.channels = patch, channels
        self.mean, self.std, self.shift = mean, std, shift
        self.cosine, self.bins = cosine, bins

    def unpatchify(self, tokens, h, w):
        b, n, _d = tokens.shape
        p = self.patch
        assert n == (h // p) * (w // p), f"{n} tokens for {h}x{w} at patch {p}"
        x = tokens.view(b, h // p, w // p, p, p, self.channels)
        return x.permute(0, 5, 1, 3, 2, 4).reshape(b, self.channels, h, w)

    def forward(self, tokens, latents, noise, normal, valid_mask=None):
        b, _c, h, w = latents.shape
        v = self.unpatchify(tokens, h, w).float()
        t = torch.sigmoid(normal * self.std + self.mean)
        t = self.shift * t / (1 + (self.shift - 1) * t)
        target = noise - latents
        x_t = torch.lerp(latents, noise, t.view(b, 1, 1, 1))
        x0_error = (x_t - t.view(b, 1, 1, 1) * v - latents).abs().mean(dim=(1, 2, 3))

        err = (v - target).square()
        direction = 1 - F.cosine_similarity(v, target, dim=1)
        if valid_mask is not None:
            err, direction = err * valid_mask, direction * valid_mask[:, 0]
        per_sample = err.mean(dim=(1, 2, 3)) + self.cosine * direction.mean(dim=(1, 2))

        which = (t * self.bins).long().clamp(max=self.bins - 1)
        sums = torch.zeros(self.bins, device=t.device).index_add(0, which, per_sample)
        counts = torch.zeros(self.bins, device=t.device).index_add(0, which, torch.ones_like(per_sample))
        return per_sample.mean(), sums / counts.clamp(min=1), x0_error


inputs = [
    torch.randn(16, 4096, 64).bfloat16(),
    torch.randn(16, 16, 128, 128),
    torch.randn(16, 16, 128, 128),
    torch.randn(16),
]
