"""Weight-normalised dilated depthwise filter with a WaveNet gate, conditioning and skip sums."""

import torch
import torch.nn.functional as F


class GatedDepthwise(torch.nn.Module):
    def __init__(self, channels=96, kernel=3, dilations=(1, 3, 9)):
        super().__init__()
        self.channels, self.kernel, self.dilations = channels, kernel, dilations
        n = len(dilations)
        self.weight_v = torch.nn.Parameter(torch.randn(n, 2 * channels, 1, kernel))
        self.weight_g = torch.nn.Parameter(torch.ones(n, 2 * channels, 1, 1))
        self.bias = torch.nn.Parameter(torch.zeros(n, 2 * channels))
        self.skip_scale = torch.nn.Parameter(torch.full((n, channels, 1), 0.5))

    def forward(self, x, cond, lengths):
        mask = (
            (torch.arange(x.shape[-1], device=x.device)[None, :] < lengths[:, None]).unsqueeze(1).to(x.dtype)
        )
        skip = torch.zeros_like(x)
        for i, d in enumerate(self.dilations):
            v = self.weight_v[i]
            weight = self.weight_g[i] * v / v.norm(2, dim=(1, 2), keepdim=True)
            h = F.pad(x, ((self.kernel - 1) * d, 0))
            h = F.conv1d(h, weight, self.bias[i], dilation=d, groups=self.channels)
            b, _, t = h.shape
            filt, gate = h.view(b, self.channels, 2, t).unbind(2)
            g = cond[:, i * self.channels : (i + 1) * self.channels].unsqueeze(-1)
            z = torch.tanh(filt + g) * torch.sigmoid(gate + g)
            skip = skip + self.skip_scale[i] * z
            x = (x + z) * (0.5**0.5) * mask
        return x, F.relu(skip) * mask


inputs = [torch.randn(8, 96, 8192), torch.randn(8, 288), torch.randint(2048, 8193, (8,))]
