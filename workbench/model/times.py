"""A kernel's time: measured with its conditions, or the roofline model's; and where the time goes."""

from __future__ import annotations

from typing import Literal

from workbench.model.value import Value

Comparison = Literal["FASTER", "SAME", "SLOWER", "AMBIGUOUS"]
"""The kernel against one baseline; AMBIGUOUS when the interval allows two of the others."""


class Rival(Value):
    """A baseline measured in turns with the kernel, at one case, on the same tensors."""

    name: str
    """``eager``, ``compile``, ``compile max-autotune``, ``graph of eager`` or ``graph of compile``."""
    time_us: float
    """Device time, median of its blocks, caches cold."""
    ratio: float
    """Its time over the kernel's, median over paired blocks: above 1 the kernel is faster."""
    low: float
    high: float
    """95% interval of ``ratio``; the lower end is what may be claimed."""
    verdict: Comparison
    blocks: int
    """Paired ABBA blocks."""
    host_us: float | None = None
    """Host time to issue one call, where the kernel is launch-bound."""
    graph_us: float | None = None
    """Device time when replayed from a CUDA graph, where the kernel is launch-bound."""


class Conditions(Value):
    """What the card was doing while it was timed, as NVML tells; zeros where NVML is missing."""

    sm_mhz_low: int = 0
    sm_mhz_high: int = 0
    power_w: float = 0.0
    """Highest seen."""
    temperature_c: int = 0
    """Highest seen."""
    throttled: tuple[str, ...] = ()
    """Reasons the driver gave for a lower clock, other than idling."""
    dropped: int = 0
    """Blocks left out because the card slowed itself down."""
    other_processes: int | None = None
    """Other processes that hold memory of the GPU; None when it cannot be seen."""


class StepTime(Value):
    """What one step of a plan took on the device, in a call that is not one of the timed ones."""

    step: str
    """A kernel's name expression, or a library operation such as ``aten.mm``."""
    kind: Literal["kernel", "library"]
    line: int
    """Of the file, where the step stands in the plan."""
    time_us: float
    """Device time of all that the step started, and of zeroing buffers before it, without what lies between;
    median of a few calls that begin with cold caches."""

    @property
    def name(self) -> str:
        """The same without template arguments."""
        return self.step.partition("<")[0]


class Measured(Value):
    """How a case was timed and what came of it: the numbers behind a ``CaseTime`` of source ``measured``."""

    clock: Literal["cupti", "events", "wall"]
    """Which clock ``time_us`` is from; the others are cross-checks."""
    low_us: float
    high_us: float
    """95% interval of the device time, caches cold: of the median over blocks of samples."""
    samples: int
    relative_stdev: float
    warm_us: float | None = None
    """Device time with the same inputs again and again, caches warm."""
    host_us: float | None = None
    """Host time to issue one call; only where the kernel is launch-bound (under 30 us)."""
    graph_us: float | None = None
    """Device time when replayed from a CUDA graph; only where the kernel is launch-bound."""
    rivals: tuple[Rival, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    """Baselines that could not be measured (or not yet), and why."""
    crosschecks: tuple[tuple[str, float], ...] = ()
    """Other clocks' device times, microseconds: ``events``, ``slope``."""
    steps: tuple[StepTime, ...] = ()
    """Every launch and library call, in order; empty for a plan of one, and where CUPTI is not to be had.

    Their sum is less than the time of the whole by what lies between them.
    """
    conditions: Conditions = Conditions()
    suspicion: str = ""
    """Why the time is not believed: clocks disagree, or faster than physics; empty when it is believed."""
    disturbed: str = ""
    """Whose clocks disagree beside the kernel's, as ``suspicion`` says it; empty as a rule."""
    receipt: str = ""
    """File with the raw samples, below the session's folder."""

    @property
    def steps_us(self) -> float:
        """Device time of all steps; 0 where none was timed."""
        return sum(step.time_us for step in self.steps)

    @property
    def longest_step(self) -> StepTime | None:
        """The one that takes most."""
        return max(self.steps, key=lambda step: step.time_us, default=None)

    @property
    def library_share(self) -> float | None:
        """Share of ``steps_us`` that library calls take; None where no step was timed."""
        calls = sum(step.time_us for step in self.steps if step.kind == "library")
        return calls / self.steps_us if self.steps_us else None

    @property
    def fastest(self) -> Rival | None:
        """The baseline the headline is against; None when none was measured."""
        return min(self.rivals, key=lambda rival: rival.time_us, default=None)

    @property
    def verdict(self) -> Comparison | None:
        """Against the fastest baseline."""
        return self.fastest.verdict if self.fastest else None


class CaseTime(Value):
    """Time of one declared case. ``model`` is a roofline model and never a measurement."""

    case: str
    source: Literal["model", "measured"]
    time_us: float
    baselines: tuple[tuple[str, float], ...] = ()
    """Name and time in microseconds, from the same source."""
    floor_us: float
    """Speed of light: least bytes over copy bandwidth, or operations over peak, plus the first launch."""
    bound: Literal["memory", "latency", "compute", "launch", "library"] = "memory"
    note: str = ""
    measured: Measured | None = None
    """How it was measured; None for a model."""

    @property
    def speedup(self) -> float:
        """Fastest baseline over this; 1.0 when there is no baseline."""
        return min((t for _, t in self.baselines), default=self.time_us) / self.time_us

    @property
    def roofline_share(self) -> float:
        """Floor over time, at most 1 for an honest time."""
        return self.floor_us / self.time_us


class KernelProfile(Value):
    """What one launch of a plan did on the hardware."""

    kernel: str
    metrics: tuple[tuple[str, float], ...]
    """Name and value; the unit stands at the end of each name, such as ``dram_percent``."""


class Profile(Value):
    """Where the time of a kernel goes, at one case."""

    case: str
    source: Literal["counters", "estimate"]
    """``counters``: read by Nsight Compute. ``estimate``: computed from resources, plan and time."""
    kernels: tuple[KernelProfile, ...] = ()
    """One a launch, in the plan's order."""
    sentences: tuple[str, ...] = ()
    """The same, interpreted: numbers with units, the most telling first."""
    bound: Literal["memory", "latency", "compute", "launch", "library"] | None = None
    """What limits the longest launch; None where the numbers do not tell."""
    note: str = ""
    """Why there are no counters, where there are none."""
