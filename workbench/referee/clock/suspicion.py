"""Times that are not believed: clocks that disagree, and speeds beyond physics. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.referee.clock.options import ClockOptions, Physics

Crosschecks = Sequence[tuple[str, float]]
SLOPE = "the wall clock"
EVENTS = "CUDA events"


def suspicion(
    time_us: float, crosschecks: Crosschecks, physics: Physics, options: ClockOptions, disturbed: str = ""
) -> str:
    """One sentence with the numbers, or nothing. All times in microseconds, cold.

    ``disturbed`` says whose clocks disagree beside the kernel's.
    """
    return disagreement(time_us, crosschecks, options, disturbed) or beyond_physics(time_us, physics)


def disagreement(time_us: float, crosschecks: Crosschecks, options: ClockOptions, disturbed: str = "") -> str:
    """Another clock says more than the device's own, by more than max(5%, 3 us).

    Either may say less, which nobody gains by: the wall clock's slope loses the difference between flushing
    after a kernel that only reads and flushing after a flush, whose dirty lines must be written back.
    """
    for name, other_us in crosschecks:
        if other_us - time_us > tolerance_us(time_us, other_us, options):
            why = "work may go on after the kernel seems to have ended"
            if disturbed and name == SLOPE:
                why = f"{disturbed}: something else keeps the machine busy, measure again without it"
            times = f"{time_us:.1f} us on the device, {other_us:.1f} us by {name}"
            return f"the clocks disagree: {times}; {why}"
    return ""


def tolerance_us(time_us: float, other_us: float, options: ClockOptions) -> float:
    """How far two clocks may lie apart."""
    return max(options.device_disagreement * max(time_us, other_us), options.disagreement_us)


def beyond_physics(time_us: float, physics: Physics) -> str:
    """Faster than the memory or the arithmetic unit can be."""
    if not time_us < physics.least_us:
        return ""
    moved = physics.dram_bytes / time_us * 1e-6
    if moved * 1e12 > physics.dram_bytes_per_s > 0:
        peak = physics.dram_bytes_per_s * 1e-12
        return f"faster than the memory: {moved:.2f} TB/s where the card has {peak:.2f}"
    reached, peak = physics.flops / time_us * 1e-6, physics.flops_per_s * 1e-12
    return f"faster than the arithmetic: {reached:.0f} TFLOP/s where the unit has {peak:.0f}"
