"""Three layers with ReLU between them, in bfloat16: all of it products."""

import torch
from torch import nn

mlp = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1024))
mlp = mlp.to(torch.bfloat16)
inputs = [torch.randn(4096, 1024, dtype=torch.bfloat16)]
