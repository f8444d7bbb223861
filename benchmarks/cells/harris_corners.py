"""Harris corners: gradients, a 5x5 window of their products, the response, its local maxima."""

import torch
import torch.nn.functional as F


def harris(img, k: float = 0.04):
    p = F.pad(img, (1, 1, 1, 1), mode="replicate")
    ix = (p[..., 1:-1, 2:] - p[..., 1:-1, :-2]) * 0.5
    iy = (p[..., 2:, 1:-1] - p[..., :-2, 1:-1]) * 0.5
    s = F.avg_pool2d(torch.cat([ix * ix, iy * iy, ix * iy], 1), 5, 1, 2)
    sxx, syy, sxy = s.chunk(3, dim=1)
    r = sxx * syy - sxy**2 - k * (sxx + syy) ** 2
    top = F.max_pool2d(r, 3, 1, 1)
    return r, (r == top) & (r > 1e-4)


inputs = [torch.rand(4, 1, 1024, 1024)]
