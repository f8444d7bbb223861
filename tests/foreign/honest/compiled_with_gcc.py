"""Compiles C++ of its own at import and calls it through ctypes.

problem: row_softmax
cpu_only: yes
verdict: passed
"""

import ctypes
import subprocess
from pathlib import Path

import torch
from torch import nn

SOURCE = r"""
#include <cmath>
extern "C" void softmax(const float* x, float* y, long rows, long columns) {
    for (long row = 0; row < rows; ++row, x += columns, y += columns) {
        float largest = -INFINITY, total = 0;
        for (long i = 0; i < columns; ++i) largest = x[i] > largest || std::isnan(x[i]) ? x[i] : largest;
        for (long i = 0; i < columns; ++i) total += y[i] = std::exp(x[i] - largest);
        for (long i = 0; i < columns; ++i) y[i] /= total;
    }
}
"""
Path("softmax.cpp").write_text(SOURCE)
subprocess.run(["g++", "-O2", "-shared", "-fPIC", "softmax.cpp", "-o", "softmax.so"], check=True)
LIBRARY = ctypes.CDLL(str(Path("softmax.so").absolute()))


class ModelNew(nn.Module):
    def forward(self, x):
        x, result = x.contiguous(), torch.empty_like(x)
        addresses = (ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(result.data_ptr()))
        LIBRARY.softmax(*addresses, ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))
        return result
