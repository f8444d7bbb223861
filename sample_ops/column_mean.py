"""Mean over the first axis: a reduction whose elements lie a whole row apart.

Why it is interesting: the same arithmetic as a row's mean, but neighbours in memory belong to different
results. Threads side by side must take columns side by side; a thread per row would use one float of
each 32-byte sector.

Look for: full sectors a request, several blocks sharing one column when rows are many and columns few,
and the second stage that joins them.
"""

import torch


def column_mean(x):
    return x.mean(dim=0)


inputs = [torch.randn(65536, 1024)]
shapes = [(8192, 8192), (1048576, 64), (512, 4096)]
