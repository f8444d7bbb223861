"""The results of two experts for every token, added up by their shares."""

import torch


def expert_mix(results, places, shares):
    return (results[places] * shares[..., None]).sum(1)


inputs = [torch.randn(16384, 1024), torch.randint(0, 16384, (8192, 2)), torch.rand(8192, 2)]
