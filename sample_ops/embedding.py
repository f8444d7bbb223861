"""Embedding look-up: rows of a table, chosen by an index, scaled.

Why it is interesting: nothing is computed; the time is that of moving rows whose place is known only
when an index has been read. One dependent load stands in front of all the others.

Look for: whole rows moved by wide loads, enough rows in flight to hide the dependent load, and few
tokens, where latency is everything.
"""

import torch
from torch.nn import functional as F


def embedding(tokens, table):
    return F.embedding(tokens, table) * 64.0


inputs = [torch.randint(0, 32000, (16384,)), torch.randn(32000, 4096)]
shapes = [((512,), (32000, 4096)), ((65536,), (50257, 768)), ((1,), (32000, 4096))]
