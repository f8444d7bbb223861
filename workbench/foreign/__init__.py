"""Judge code that brings its own host side: a KernelBench-style ``ModelNew`` in a sandboxed process.

The lane is *foreign*: the search never produces such code, and every result says where it comes from.
Values of this package's front (``judge``, ``values``) import no torch.
"""
