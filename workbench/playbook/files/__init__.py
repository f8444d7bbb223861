"""A whole generated file: the plan above its kernels, and kernels for several classes of shapes."""
