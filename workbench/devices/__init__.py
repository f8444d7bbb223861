"""Where kernels are judged: the emulator, a GPU, or nothing at all (tests)."""
