"""What is started ahead of the first problem, so that nobody waits for it: servers, a worker.

Owns the order in which that happens, in the background of a notebook or a benchmark. Imports no IPython.
"""

from __future__ import annotations

import contextlib
import threading

from workbench.devices.cards import probed
from workbench.errors import WorkbenchError
from workbench.live.kernel_call import FUNCTION, LIMITS
from workbench.problem.intake import warm_up as warm_up_intake
from workbench.workers import torch_ready


def warm_up() -> None:
    """Start the shared worker servers, and a worker for the first problem; ask the driver what GPU there is.

    Failures are told where what failed is used.
    """
    threading.Thread(target=probed, daemon=True).start()  # a second on a GPU machine, none of this one's time
    with contextlib.suppress(WorkbenchError):
        torch_ready().call(FUNCTION, b"", LIMITS)
        warm_up_intake()
