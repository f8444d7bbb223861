"""The offline brain: from the op graph and a technique vector to a readable CUDA kernel."""
