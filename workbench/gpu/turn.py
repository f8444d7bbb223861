"""One stream after the other for a kernel that keeps counters in ``__device__`` variables.

Such counters serve one launch at a time. Launches in one stream follow each other anyway; when a call comes
from another stream, that stream is made to wait for what the stream before it had been given. Owns who was
last, for one module on one device. What it cannot order: replays of a CUDA graph, which no code of ours sees.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from workbench.errors import DeviceError

if TYPE_CHECKING:
    from workbench.gpu.driver import Driver

NOBODY = -1
"""No stream has this handle."""


class NotNow(DeviceError):
    """The kernel cannot be launched at this moment; nothing is wrong with it."""


class Turn:
    """Who uses the variables. ``stream`` may be compared without asking; hold ``lock`` until the launch."""

    def __init__(self, driver: Driver, device: int) -> None:
        self.stream = NOBODY
        """The stream that may launch at once."""
        self.lock = threading.RLock()  # a finalizer may call the kernel in the middle of a call
        self._driver, self._device = driver, device
        self._last = NOBODY
        """The stream of the last launch that ran, rather than was captured."""
        self._captured = (0, NOBODY)
        """Number of a capture, and the stream of the last launch in it."""
        self._event: Any = None

    def change(self, stream: int) -> None:
        """The next launch goes to this stream, after all that the stream before it was given.

        Raises ``NotNow`` while a graph is captured in the stream before it, which may not be looked at
        then, and ``GpuError``.
        """
        if capture := self._driver.capture_of(stream, self._device):
            self._change_captured(stream, capture)
            return
        if self._last not in (NOBODY, stream):
            if self._driver.capture_of(self._last, self._device):
                raise NotNow(
                    "the kernel's counters were last used in a stream that a graph is being captured in, and "
                    "another stream cannot wait for that one: call it in one stream until the capture ends"
                )
            self._follow(stream, self._last)
        self._last = self.stream = stream

    def _change_captured(self, stream: int, capture: int) -> None:
        """Inside a capture nothing runs: launches of one graph are put in order, and no others can be."""
        known, earlier = self._captured
        if known != capture:  # the first stream of a capture may be the last one's, and was let through
            same = self._last != NOBODY and self._driver.capture_of(self._last, self._device) == capture
            earlier = self._last if same else NOBODY
        if earlier not in (NOBODY, stream):
            self._follow(stream, earlier)
        self._captured = (capture, stream)
        self.stream = NOBODY

    def _follow(self, later: int, earlier: int) -> None:
        if self._event is None:
            self._event = self._driver.event(self._device)
        self._driver.follow(later, earlier, self._event, self._device)
