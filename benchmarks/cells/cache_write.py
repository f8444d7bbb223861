"""New keys and values put into their slots of a paged cache, heads and blocks as they lie there."""

import torch


def cache_write(key, value, key_cache, value_cache, slot_mapping):
    heads, dim = key.shape[1:]
    key_cache = key_cache.clone()
    value_cache = value_cache.clone()
    key_cache.view(-1, heads, dim)[slot_mapping] = key.to(key_cache.dtype)
    value_cache.view(-1, heads, dim).index_copy_(0, slot_mapping, value.to(value_cache.dtype))
    return key_cache, value_cache


inputs = [
    torch.randn(1024, 8, 128),
    torch.randn(1024, 8, 128),
    torch.randn(512, 16, 8, 128, dtype=torch.bfloat16),
    torch.randn(512, 16, 8, 128, dtype=torch.bfloat16),
    torch.randperm(8192)[:1024],
]
