"""What four queries of each of eight groups of heads think of 8192 cached keys, capped as Gemma caps them."""

import torch


def query_scores(queries, keys):
    return 50.0 * torch.tanh(queries @ keys.mT * 0.125 / 50.0)


inputs = [torch.randn(4, 8, 4, 128), torch.randn(4, 8, 8192, 128)]
