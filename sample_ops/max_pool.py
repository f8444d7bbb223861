"""Max pooling over 3 x 3 windows with stride 2: each input is read by up to four outputs.

Why it is interesting: windows overlap, so a kernel that loads each window afresh asks for 2.25 times the
input. Nearly all of that is answered by the caches, when neighbouring threads take neighbouring windows.

Look for: sectors read beyond the input's own, the border (windows that hang over the edge), and the
index arithmetic, which is most of the instructions.
"""

import torch
from torch.nn import functional as F


def max_pool(x):
    return F.max_pool2d(x, kernel_size=3, stride=2, padding=1)


inputs = [torch.randn(64, 64, 112, 112)]
shapes = [(16, 192, 56, 56), (1, 64, 112, 112), (8, 480, 29, 29)]
