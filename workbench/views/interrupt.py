"""The notebook's own stop button, for searches that go on after their cell has returned.

Owns what an interrupt does while no cell runs: the kernel ignores it there, we stop what is shown. While a
cell runs an interrupt is meant for that cell and goes to it as ever.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from types import FrameType
from typing import Any, Protocol

from workbench.errors import WorkbenchError


class Stoppable(Protocol):
    """A running search."""

    def stop(self) -> None: ...


_shown: weakref.WeakSet[Any] = weakref.WeakSet()


def stop_at_interrupt(kernel: Any, search: Stoppable) -> bool:
    """Have an idle interrupt of this kernel stop the search; False where the kernel offers no way.

    ipykernel puts the handler in ``saved_sigint_handler`` back when a cell ends. The attribute is private:
    where it is missing, or this is not called from a cell, nothing is changed.
    """
    _shown.add(search)
    if not hasattr(kernel, "saved_sigint_handler"):
        return False
    kernel.saved_sigint_handler = _interrupted
    return True


def forget(search: Stoppable) -> None:
    """An interrupt no longer concerns this search."""
    _shown.discard(search)


def _interrupted(signal: int, frame: FrameType | None) -> None:
    # Not on this thread: the signal may have come while it held the session's lock.
    for search in tuple(_shown):
        threading.Thread(target=_stop, args=(search,), daemon=True).start()


def _stop(search: Stoppable) -> None:
    with contextlib.suppress(WorkbenchError):  # it was closed meanwhile
        search.stop()
