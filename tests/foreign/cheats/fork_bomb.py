"""Starts processes without end.

number: 7
problem: row_softmax
verdict: crashed
"""

import os
import time

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            try:
                if os.fork() == 0:
                    time.sleep(30)
                    os._exit(0)
            except OSError:
                time.sleep(0.01)
