"""Additive mask of packed documents: causal, in a sliding window; images see themselves both ways."""

import torch


def packed_window_mask(position_ids, image_ids, attention_mask=None, *, window=1024, dtype=torch.bfloat16):
    # position_ids restart at 0 with every packed document; image_ids are 0 for text and i for the i-th image
    b, t = position_ids.shape
    device = position_ids.device
    doc = (position_ids == 0).cumsum(dim=-1)
    same_doc = doc[:, :, None] == doc[:, None, :]

    q = torch.arange(t, device=device).view(1, t, 1)
    k = torch.arange(t, device=device).view(1, 1, t)
    causal = k <= q
    near = (q - k) < window
    in_image = (image_ids[:, :, None] == image_ids[:, None, :]) & (image_ids[:, :, None] > 0)

    allowed = ((causal & near) | in_image) & same_doc
    if attention_mask is not None:
        allowed = allowed & attention_mask[:, None, :].bool()
    mask = torch.zeros(b, t, t, dtype=dtype, device=device)
    mask = mask.masked_fill(~allowed, torch.finfo(dtype).min)
    # rows of padding would be all -inf: let them see everything, as SDPA wants
    dead = ~allowed.any(-1, keepdim=True)
    mask = mask.masked_fill(dead, 0.0)
    return mask.unsqueeze(1), allowed.sum(-1)


def _positions(b, t):
    start = torch.rand(b, t) < 1 / 400
    start[:, 0] = True
    idx = torch.arange(t).expand(b, t)
    return idx - torch.where(start, idx, 0).cummax(1).values


_image = torch.zeros(4, 2048, dtype=torch.long)
_image[:, 100:356] = 1
_image[:, 1200:1456] = 2
_pad = torch.ones(4, 2048, dtype=torch.long)
_pad[1, 1900:] = 0
inputs = [_positions(4, 2048), _image, _pad]


def packed_mask(position_ids, image_ids, attention_mask):
    return packed_window_mask(position_ids, image_ids, attention_mask=attention_mask, window=512)
