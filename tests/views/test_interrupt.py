"""An interrupt while no cell runs stops the search that is shown, and nothing else."""

from __future__ import annotations

import signal
import threading
from types import SimpleNamespace

from workbench.errors import SessionError
from workbench.views.interrupt import forget, stop_at_interrupt


class Search:
    """Notes that it was stopped."""

    def __init__(self, closed: bool = False) -> None:
        self.stopped = threading.Event()
        self.closed = closed

    def stop(self) -> None:
        self.stopped.set()
        if self.closed:
            raise SessionError("closed")


def interrupt(kernel: SimpleNamespace) -> None:
    kernel.saved_sigint_handler(signal.SIGINT, None)


def test_an_idle_interrupt_stops_what_is_shown() -> None:
    kernel = SimpleNamespace(saved_sigint_handler=signal.SIG_IGN)
    first, closed, forgotten = Search(), Search(closed=True), Search()
    for search in (first, closed, forgotten):
        assert stop_at_interrupt(kernel, search)
    forget(forgotten)
    interrupt(kernel)
    assert first.stopped.wait(10) and closed.stopped.wait(10)
    assert not forgotten.stopped.is_set()
    forget(first)
    forget(closed)


def test_a_kernel_without_such_a_place_is_left_alone() -> None:
    search = Search()
    kernel = SimpleNamespace()
    assert not stop_at_interrupt(kernel, search)
    assert vars(kernel) == {}
    forget(search)
