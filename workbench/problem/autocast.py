"""``torch.autocast`` for a device that a reference is not read on: refused, as it would silently do nothing.

A problem is read with tensors of the CPU wherever it runs later, so that ``torch.autocast("cuda")`` would
leave everything float32. Around a block it is refused where it is entered. As a decorator it is made long
before, where the person's text is run; without a GPU torch turns it off there, so that what was asked for is
kept beside it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from workbench.errors import ProblemError

_ASKED_FOR = "_workbench_asked_for"


@contextmanager
def remembering() -> Iterator[None]:
    """Instances that are made here know for which device they were turned on."""
    ordinary = torch.autocast.__init__

    def begin(
        self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None
    ) -> None:
        with warnings.catch_warnings():
            # That it is turned off without a GPU is told where it is entered.
            warnings.filterwarnings("ignore", "CUDA is not available", UserWarning)
            ordinary(self, device_type, dtype, enabled, cache_enabled)
        setattr(self, _ASKED_FOR, device_type if enabled else "")

    torch.autocast.__init__ = begin  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.autocast.__init__ = ordinary  # type: ignore[method-assign]


@contextmanager
def autocast_that_counts() -> Iterator[None]:
    """Refuses ``torch.autocast("cuda")`` unless it is turned off. Raises ``ProblemError``."""
    ordinary = torch.autocast.__enter__

    def enter(self: Any) -> Any:
        if self.device == "cuda" and (self._enabled or getattr(self, _ASKED_FOR, "")):
            raise ProblemError(
                'torch.autocast("cuda") does nothing here: a reference is read with tensors of the CPU. '
                "Write `with torch.autocast(x.device.type, ...):` around what it is for, with one of the "
                "inputs as x."
            )
        return ordinary(self)  # type: ignore[no-untyped-call]

    torch.autocast.__enter__ = enter  # type: ignore[method-assign]
    try:
        with remembering():
            yield
    finally:
        torch.autocast.__enter__ = ordinary  # type: ignore[method-assign]
