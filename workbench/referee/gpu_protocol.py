"""What the judge and the process that holds a GPU say to each other; JSON, never pickles.

Owns the messages of the GPU's lane. Cubins travel with each request: the process compiles nothing, and any
process, a fresh spare too, can answer any request.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from workbench.model import Case, Conditions, Measured, Outcome, Problem, Target, Value
from workbench.plan.steps import Plan
from workbench.referee.clock.options import ClockOptions, Physics
from workbench.referee.clock.samples import RawTimes
from workbench.referee.options import JudgeOptions
from workbench.referee.protocol import Trial


class WarmRequest(Value):
    """Make a context and everything else that a first evaluation would wait for."""

    kind: Literal["warm"] = "warm"
    device: int = 0
    measure_copy: bool = False
    """True to measure the bandwidth of a copy as well; takes some tens of milliseconds."""


class Card(Value):
    """What the driver says of one GPU."""

    target: Target
    uuid: str
    driver: str
    """Version of CUDA that the driver supports, such as ``13.0``."""
    torch: str
    dram_peak_bytes_per_s: float
    """Of the memory bus, which no kernel can exceed."""
    free_bytes: int
    copy_measured: bool = False
    """True when ``target.dram_bytes_per_s`` was measured, False when it is a part of the peak."""


class CubinImage(Value):
    """Machine code of every kernel wanted under one set of consts."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    consts: tuple[tuple[str, str], ...]
    cubin: bytes
    names: tuple[tuple[str, str], ...]
    """Name expression and mangled name."""


Inputs = tuple[str, str]
"""Label of a case and kind of inputs."""
Drawn = tuple[str, str, int]
"""The same, and the seed."""


class CheckRequest(Value):
    """Check this kernel at these cases."""

    kind: Literal["check"] = "check"
    problem: Problem
    trials: tuple[Trial, ...]
    images: tuple[CubinImage, ...]
    options: JudgeOptions
    own_tensors: bool = False
    kernel_s: float = 5.0
    """Seconds until a kernel that has not ended counts as endless."""
    refused: tuple[Inputs, ...] = ()
    """Where the reference is known to break the context: not asked for again."""
    doubted: Drawn | None = None
    """Where it broke the context behind a kernel: asked for first, in a process that has run none yet."""


class CheckReport(Value):
    """The verdict on the numbers."""

    outcome: Outcome
    lost: bool = False
    """True when the process must end: its context is broken, or a kernel still runs in it."""
    running: bool = False
    """True when a kernel still runs: the GPU is free only once the process has ended."""
    machine: str = ""
    """What failed, where it was the machine and not the kernel; nothing is then claimed."""
    refused: Drawn | None = None
    """Where the reference broke the context, if nobody promised that it takes those."""
    seconds: tuple[tuple[str, float], ...] = ()
    peak_bytes: tuple[tuple[str, int, int], ...] = ()
    """By declared case: most memory of the card held at once, and that of inputs and outputs."""


class PrepareRequest(Value):
    """Make what every kernel of a problem is held against, before there is a kernel."""

    kind: Literal["prepare"] = "prepare"
    problem: Problem
    trials: tuple[Trial, ...]
    """Cases with the metadata of their arguments; the plans have no steps."""
    options: JudgeOptions


class PrepareReport(Value):
    """What it came to."""

    checks: int = 0
    """Checks whose inputs and bounds were made."""
    seconds: float = 0.0
    machine: str = ""
    lost: bool = False


class TimeRequest(Value):
    """Time this kernel at one declared case."""

    kind: Literal["time"] = "time"
    problem: Problem
    case: Case
    plan: Plan
    images: tuple[CubinImage, ...]
    clock: ClockOptions
    physics: Physics = Physics()
    baselines: tuple[str, ...] = ("eager",)
    """Timed in turns with the kernel."""
    earlier: RawTimes | None = None
    """Baselines timed before, in turns with each other, chained to the kernel through one of those above."""
    missing: tuple[tuple[str, str], ...] = ()
    """Baselines that could not be had then, and why."""
    seed: int = 0


class TimeReport(Value):
    """One case, timed; or why not."""

    time_us: float = 0.0
    measured: Measured | None = None
    raw: RawTimes | None = None
    """All samples, for the receipt."""
    flags: tuple[tuple[str, bool], ...] = ()
    """Torch's precision flags while it was timed."""
    outcome: Outcome | None = None
    """Set where timing showed that the kernel has not passed."""
    lost: bool = False
    running: bool = False
    machine: str = ""
    seconds: tuple[tuple[str, float], ...] = ()


class BaselineRequest(Value):
    """Time all baselines of one case in turns with each other; no kernel takes part."""

    kind: Literal["baselines"] = "baselines"
    problem: Problem
    case: Case
    baselines: tuple[str, ...]
    clock: ClockOptions


class BaselineReport(Value):
    """Samples of the baselines, or why there are none."""

    raw: RawTimes | None = None
    clock: str = ""
    conditions: Conditions = Conditions()
    missing: tuple[tuple[str, str], ...] = ()
    machine: str = ""
    lost: bool = False


Request = Annotated[
    WarmRequest | PrepareRequest | CheckRequest | TimeRequest | BaselineRequest, Field(discriminator="kind")
]
REQUEST: TypeAdapter[WarmRequest | PrepareRequest | CheckRequest | TimeRequest | BaselineRequest] = (
    TypeAdapter(Request)
)
