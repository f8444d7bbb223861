"""Kernels on an NVIDIA GPU: load machine code, carry out plans, at a host cost below a torch operation's.

Import the modules where they are used: they import torch and CUDA, which only worker children and calls of
applied kernels do.
"""
