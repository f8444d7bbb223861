"""Six layers of torch's own encoder in bfloat16, norms behind, with ReLU."""

import torch
from torch import nn

layer = nn.TransformerEncoderLayer(512, 8, 2048, 0.0, "relu", batch_first=True)
encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).to(torch.bfloat16).eval()
inputs = [torch.randn(8, 512, 512, dtype=torch.bfloat16)]
