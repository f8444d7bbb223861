"""torch's own layer of an encoder in bfloat16, norm first, with the GELU that has an error function."""

import torch
from torch import nn

layer = nn.TransformerEncoderLayer(768, 12, 3072, 0.0, "gelu", batch_first=True, norm_first=True)
layer = layer.to(torch.bfloat16).eval()
inputs = [torch.randn(8, 512, 768, dtype=torch.bfloat16)]
