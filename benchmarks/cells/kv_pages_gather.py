"""Pages of a key-value cache, int8 with a scale per slot and head, gathered by block table to fp16."""

import torch


def gather_pages(cache, scales, block_table, context_lens):
    # cache [pages, 16, 8, 128] int8, scales [pages, 16, 8] fp16
    b, n = block_table.shape
    k = cache[block_table.clamp(min=0)].to(torch.float16)
    k = k * scales[block_table.clamp(min=0)].unsqueeze(-1)
    k = k.reshape(b, n * 16, 8, 128)
    pos = torch.arange(n * 16, device=k.device)
    k[pos[None, :] >= context_lens[:, None]] = 0
    return k.permute(0, 2, 1, 3)


inputs = [
    torch.randint(-127, 128, (600, 16, 8, 128), dtype=torch.int8),
    torch.rand(600, 16, 8).half() * 0.05,
    torch.randint(-1, 600, (16, 32)),
    torch.randint(100, 512, (16,)),
]
