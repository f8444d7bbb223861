"""The environment a worker process starts with: an allow-list, so that a new secret is left out too."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch

ALLOWED = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "WORKBENCH_CACHE",
    "WORKBENCH_*_CACHE",
)
"""Names, or patterns of names, that a worker may inherit."""

FIXED = {
    # OpenBLAS, which numpy brings, starts threads when it is loaded; a server with threads must not fork.
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
    # Torch remembers results of operations by their symbolic sizes, which no later export has: that is a
    # twelfth of each export.
    "TORCH_FAKE_TENSOR_DISPATCH_CACHE": "0",
}


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment that workers may see, plus fixed settings."""
    kept = {
        name: value
        for name, value in environment.items()
        if any(fnmatch(name, pattern) for pattern in ALLOWED)
    }
    return kept | FIXED
