"""Run a function in a disposable process forked from a clean, warm server.

Owns process isolation: environment, limits, deadlines, the channel a result travels on. Never
imports torch or CUDA into the calling process and never decides what a result means.
"""

from workbench.workers.child import prepared_by
from workbench.workers.conversation import Conversation
from workbench.workers.forkserver import ForkServer
from workbench.workers.shared import light, torch_ready
from workbench.workers.values import Died, Expired, Limits, Raised, Result, Returned

__all__ = [
    "Conversation",
    "Died",
    "Expired",
    "ForkServer",
    "Limits",
    "Raised",
    "Result",
    "Returned",
    "light",
    "prepared_by",
    "torch_ready",
]
