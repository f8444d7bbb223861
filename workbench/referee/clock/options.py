"""How long to look, what counts as a difference, and what physics allows. Values only."""

from __future__ import annotations

from workbench.model import Value

MEGABYTE = 10**6


class ClockOptions(Value):
    """The defaults are the published rules; ``INTERACTIVE`` fits into a person's patience."""

    warmups: int = 10
    """Least calls of each contestant before the first sample."""
    warmup_s: float = 0.2
    """Least seconds of warming up, all contestants together."""
    samples: int = 30
    """Least samples of the kernel."""
    min_s: float = 0.5
    """Least seconds of sampling."""
    max_s: float = 15.0
    """Sampling ends after this many seconds, whatever the noise."""
    blocks: int = 10
    """Least paired blocks; a block holds two samples of every contestant."""
    relative: float = 0.005
    """Relative standard deviation of the samples that is quiet enough."""
    half_width: float = 0.003
    """Half the interval of a ratio, relative, that is narrow enough when it decides nothing yet."""
    margin: float = 0.0075
    """FASTER and SLOWER begin this far from 1: the place of a buffer alone can cost a few thousandths."""
    same: float = 0.0125
    """SAME is an interval that stays within this distance of 1."""
    tick_us: float = 0.032
    """Resolution of the device's timer, as seen on an H100: ``margin`` is never below one tick of a kernel's
    time, nor ``same`` below one and a half."""
    resamples: int = 1000
    """Bootstrap resamples."""
    seed: int = 0
    flush_bytes: int = 256 * 2**20
    """Written before every cold sample; an H100 has 50 MB of L2."""
    rotate_bytes: int = 250 * MEGABYTE
    """Inputs and weights are rotated over at least this much, where one set of them is smaller."""
    rotations: int = 256
    """Most copies of the inputs and weights."""
    checks: int = 10
    """Samples each cross-checking clock takes."""
    checks_s: float = 0.03
    """Fewer of them, but at least 3, where they would take longer than this."""
    launch_bound_us: float = 30.0
    """Below this, host latency and CUDA graphs are measured as well."""
    device_disagreement: float = 0.05
    """Clocks may differ by this part of the time ..."""
    disagreement_us: float = 3.0
    """... or by this many microseconds, whichever is more."""

    def margin_at(self, time_us: float) -> float:
        """Where FASTER and SLOWER begin for a kernel of this length."""
        return max(self.margin, self.tick_us / time_us)

    def same_at(self, time_us: float) -> float:
        """How far SAME reaches for a kernel of this length."""
        return max(self.same, 1.5 * self.tick_us / time_us)

    def half_width_at(self, time_us: float) -> float:
        """What is narrow enough for a kernel of this length."""
        return max(self.half_width, 0.25 * self.tick_us / time_us)

    def checks_at(self, time_us: float) -> int:
        """Cross-checking samples of a kernel of this length."""
        return max(3, min(self.checks, int(1e6 * self.checks_s / max(time_us, 1.0))))


INTERACTIVE = ClockOptions(warmups=4, warmup_s=0.02, min_s=0.06, max_s=0.5, checks=5)
"""A verdict within a second a shape. The interval is then as wide as it is, and said with the ratio."""


class Physics(Value):
    """What no honest kernel can go below at one case; zeros claim nothing."""

    dram_bytes: float = 0.0
    """Bytes that must cross the memory bus during a cold run."""
    dram_bytes_per_s: float = 0.0
    """Peak of the memory, not what a copy reaches."""
    flops: float = 0.0
    """Operations of matrix products that cannot be rewritten away."""
    flops_per_s: float = 0.0
    """Peak of the fastest unit the precision contract allows."""

    @property
    def least_us(self) -> float:
        """Microseconds that nothing is faster than; 0 when nothing is known."""
        memory = self.dram_bytes / self.dram_bytes_per_s if self.dram_bytes_per_s else 0.0
        arithmetic = self.flops / self.flops_per_s if self.flops_per_s else 0.0
        return 1e6 * max(memory, arithmetic)
