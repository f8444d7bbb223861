"""The content's features with the style's mean and deviation."""

import torch


def adain(content, style):
    spread, mean = torch.var_mean(content, (2, 3), keepdim=True)
    style_spread, style_mean = torch.var_mean(style, (2, 3), keepdim=True)
    return (content - mean) * torch.rsqrt(spread + 1e-5) * (style_spread + 1e-5).sqrt() + style_mean


inputs = [torch.randn(16, 512, 64, 64), torch.randn(16, 512, 64, 64)]
