"""Log-softmax: the last step of nearly every classifier and language model.

Why it is interesting: the same two reductions as softmax, but the result is x - max - log(sum), so the
exponentials are needed for the sum only and are never written. Careful code never computes
log(softmax(x)), which is -inf wherever the probability underflows.

Look for: large negative outputs that are exact rather than -inf, and the read traffic of a vocabulary
of 50257, an odd number that no vector load divides.
"""

import torch


def log_softmax(x):
    return torch.log_softmax(x, dim=-1)


inputs = [torch.randn(2048, 50257)]
shapes = [(16, 50257), (8192, 1000)]
