"""Device times by CUDA events, for the few programs that compare states of the card and not kernels.

Owns one function. Never gives a verdict: that is the referee's clock (workbench/referee/clock).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

HELD_CYCLES = 200_000
"""The device is kept busy for so long, until the host has queued what follows."""


def median_us(act: Callable[[], object], before: Callable[[], object], repeats: int) -> float:
    """Median of ``act``'s device time in microseconds; ``before`` runs ahead of each, outside of the time.

    What a pair of events itself takes is in it: 1.3 us on an H100.
    """
    import torch

    found: list[float] = []
    for _ in range(repeats):
        before()
        torch.cuda._sleep(HELD_CYCLES)  # type: ignore[no-untyped-call]
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        act()
        end.record()
        end.synchronize()
        found.append(float(begin.elapsed_time(end)) * 1000)
    return statistics.median(found)
