"""CUDA functions that generated kernels call, as text: reductions, scans, packs, atomics."""
