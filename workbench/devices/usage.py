"""What a GPU is doing now, for whoever watches: who wants it, its memory, how busy it is.

Reads NVML through ``nvidia-ml-py`` where it is installed, which makes no CUDA context. Never changes a
setting and never waits for the card.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from workbench.model import Value


class Usage(Value):
    """One look at the card."""

    card: str
    index: int
    in_hand: int = 0
    """Kernels and preparations that want the card or are on it."""
    baselines_left: int = 0
    """Slow baselines still to be timed while nobody wants the card."""
    used_bytes: int | None = None
    """Of all processes together; None where NVML is missing or refuses, as below."""
    total_bytes: int | None = None
    busy_percent: int | None = None
    """Share of the last sample period in which some kernel ran."""


@runtime_checkable
class Watched(Protocol):
    """A device that can tell what its card is doing."""

    def usage(self) -> Usage:
        """Now; returns at once and never raises."""
        ...


def look(card: str, index: int, uuid: str) -> Usage:
    """The card as NVML sees it; name and number alone where it cannot be seen."""
    plain = Usage(card=card, index=index)
    try:
        nvml, handle = _handle(uuid)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        busy = nvml.nvmlDeviceGetUtilizationRates(handle).gpu
    except Exception:  # no NVML, no right to ask, a card that is divided: then it is not known
        return plain
    return plain.model_copy(
        update={"used_bytes": int(memory.used), "total_bytes": int(memory.total), "busy_percent": int(busy)}
    )


@cache
def _handle(uuid: str) -> tuple[Any, Any]:
    """NVML and its handle of a card. Raises whatever NVML raises, each time anew."""
    nvml = import_module("pynvml")
    nvml.nvmlInit()
    return nvml, nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode())
