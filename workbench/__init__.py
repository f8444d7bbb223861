"""Search for fast CUDA kernels from a notebook cell.

``%load_ext workbench`` gives ``%%cuda_optimize``; ``workbench demo`` shows what it does. Importing
this package imports neither torch nor a CUDA library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__version__ = "0.1.0"


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Register the magics; called by ``%load_ext workbench``."""
    from workbench.magic import load

    load(ipython)
