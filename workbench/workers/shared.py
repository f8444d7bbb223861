"""The two servers that the whole process shares; they start at their first call.

Owns which modules each of them has loaded. Names modules of higher layers as text only.
"""

from __future__ import annotations

import atexit
from functools import cache

from workbench.workers.forkserver import ForkServer

LIGHT_MODULES = ("workbench.compile.nvrtc:warm_up",)
TORCH_MODULES = (
    "torch",
    "workbench.problem.opening:warm_up",
    "workbench.referee.trial",
    "workbench.referee.gpu_trial",
    "workbench.foreign.trial",
)
# Nothing here may import torch.utils.cpp_extension: it asks for the GPU, which starts a thread of the
# driver, and then no process may be forked.


@cache
def light() -> ForkServer:
    """Server for compiling and parsing: NVRTC loaded, no torch."""
    return _shared(LIGHT_MODULES)


@cache
def torch_ready() -> ForkServer:
    """Server whose children have torch imported, no thread started and no GPU touched."""
    return _shared(TORCH_MODULES)


def _shared(preload: tuple[str, ...]) -> ForkServer:
    server = ForkServer(preload)
    atexit.register(server.close)
    return server
