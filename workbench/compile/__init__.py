"""CUDA text to machine code with NVRTC from wheels: no CUDA toolkit, no GPU, no torch.

Owns what the real compiler says of a kernel: diagnostics, resources, the code itself. Never runs a
kernel and never loads NVRTC into the calling process.
"""

from workbench.compile.service import compile_kernel, load_cubin

__all__ = ["compile_kernel", "load_cubin"]
