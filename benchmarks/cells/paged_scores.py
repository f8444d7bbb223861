"""Scores of one new token against keys that lie in pages, by a table of blocks, past lengths hidden."""

import torch


def paged_scores(query, key_cache, block_tables, context_lens):
    num_seqs, heads, dim = query.shape
    block_size = key_cache.shape[1]
    kv_heads = key_cache.shape[2]
    keys = key_cache[block_tables].reshape(num_seqs, -1, kv_heads, dim)
    q = query.view(num_seqs, kv_heads, heads // kv_heads, dim)
    scores = torch.einsum("skgd,stkd->skgt", q.float(), keys.float()) * dim**-0.5
    pos = torch.arange(block_tables.shape[1] * block_size, device=query.device)
    scores = scores.masked_fill(pos[None, None, None] >= context_lens[:, None, None, None], float("-inf"))
    return torch.softmax(scores, dim=-1).view(num_seqs, heads, -1)


inputs = [
    torch.randn(32, 32, 128, dtype=torch.float16),
    torch.randn(2048, 16, 8, 128, dtype=torch.float16),
    torch.randint(0, 2048, (32, 64)),
    torch.randint(1, 1024, (32,)),
]
