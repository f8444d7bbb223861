"""CUDA kernels as text: one module for each form, and the parts that forms share."""
