"""What the foreign lane is asked and what it answers; frozen values, no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from workbench.model import Check, Digest, Outcome, Passed, Problem, Rival, Value
from workbench.referee.clock.options import INTERACTIVE, ClockOptions

LONGEST = 2000
DRIVER_BYTES = 2**40
"""What the driver maps counts as private memory, used or not."""
DRIVER_THREADS = 96
HOST_BYTES_ON_GPU = 48 * 2**30
"""Libraries and modules on their way to the card lie in the host's memory first."""


def printable(text: object) -> object:
    """Text without control characters, which could act on a terminal, and no longer than ``LONGEST``."""
    if not isinstance(text, str):
        return text
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text[:LONGEST])


Text = Annotated[str, BeforeValidator(printable)]


class Fence(Value):
    """One part of the sandbox on this machine."""

    name: str
    holds: str
    """``yes``, with what is left out, or ``no: why``."""


class Allowance(Value):
    """What the solution's process may use."""

    wall_s: float = 600.0
    """Wall seconds for building, loading and all calls together."""
    load_s: float = 240.0
    """Wall seconds for importing the solution, its builds included."""
    first_call_s: float = 240.0
    """Wall seconds for the first call at any size, which may compile or tune."""
    call_s: float = 60.0
    """Wall seconds for one call later on."""
    cpu_s: int = 600
    memory_bytes: int = 6 * 2**30
    file_bytes: int = 2**30
    processes: int = 64
    """Processes and threads alive at once."""
    readable: tuple[str, ...] = ()
    """Folders it may read beside Python, torch and the system's libraries."""
    driver_bytes: int = 0
    """Addresses that a GPU's driver may take before the solution is loaded, on top of ``memory_bytes``."""

    def on_gpu(self) -> Allowance:
        """With what CUDA itself needs: address space, and the threads of its driver and compilers."""
        more = {
            "driver_bytes": DRIVER_BYTES,
            "processes": self.processes + DRIVER_THREADS,
            "memory_bytes": max(self.memory_bytes, HOST_BYTES_ON_GPU),
        }
        return self.model_copy(update=more)


class ForeignOptions(Value):
    """How hard a solution is looked at."""

    device: Literal["cpu", "cuda"] = "cpu"
    calls: int = 1000
    """Calls in a row in the long run, every one compared; fewer where they are slow or large."""
    long_run_s: float = 3.0
    most_elements: int = 2**20
    """Declared cases up to this size are run on the CPU."""
    replay: int | None = None
    """Number that all seeds follow from; None draws one, which is what keeps inputs out of reach."""
    allowance: Allowance = Allowance()
    timing: Literal["gpu", "any", "no"] = "gpu"
    """``any`` also times CPU tensors by the host's clock, which says little about a kernel."""
    clock: ClockOptions = INTERACTIVE
    baselines: tuple[str, ...] = ("eager", "compile")


class ForeignRequest(Value):
    """Parent to the trusted child."""

    problem: Problem
    solution: str
    options: ForeignOptions


class Share(Value):
    """Part of the time of one call spent in one operation or kernel."""

    name: Text
    percent: float = Field(ge=0, le=101)
    kind: Literal["library", "own", "python"]
    family: Text = ""
    """Of a kernel on a GPU: ``cuBLAS``, ``PyTorch``, ``torch.compile``, ``copy``, ...; empty for its own."""


class Provenance(Value):
    """Which code did the work, from a profile the solution's process took of itself."""

    shares: tuple[Share, ...] = ()
    own_calls: tuple[str, ...] = ()
    """Functions of extensions the solution built, or operators of its own, that were called."""
    claims: tuple[str, ...] = ()
    """Ways to bring a kernel that its text uses: ``load_inline``, ``triton.jit``, ..."""
    clock: Literal["processor", "device", "blind"] = "processor"
    """Whose time the shares are of; ``blind`` on a GPU whose kernels the profiler did not see."""
    why_blind: str = ""
    own_kernels: tuple[str, ...] = ()
    """On a GPU: kernels that ran and come from no library."""
    defined: tuple[str, ...] = ()
    """Kernels whose definitions the text holds, by name."""
    launches: int = 0
    """Kernels, copies and memory sets of one call, on a GPU."""

    @property
    def sentence(self) -> str:
        """Such as ``aten::mm does 96% of the time``, or ``62% of device time in a cuBLAS kernel (nvjet)``."""
        if self.clock == "blind":
            return f"which kernels ran is not known: {self.why_blind or 'the profiler saw none'}"
        if self.clock == "device":
            return "; ".join([*self._on_device(), f"{self.launches} kernels and copies a call"])
        parts = [f"{share.name} does {share.percent:.0f}% of the time" for share in self.shares[:2]]
        parts += [f"own code that ran: {', '.join(self.own_calls[:3])}"] if self.own_calls else []
        return "; ".join(parts)

    def _on_device(self) -> Iterator[str]:
        """One clause a family, the largest first, with the name of its longest kernel."""
        families: dict[str, list[Share]] = {}
        for share in self.shares:
            families.setdefault(share.family, []).append(share)
        for family, shares in sorted(families.items(), key=lambda item: -sum(s.percent for s in item[1])):
            whose = f"a {family} kernel" if len(shares) == 1 else f"{len(shares)} {family} kernels"
            if family == "":
                whose = "a kernel of its own" if len(shares) == 1 else f"{len(shares)} kernels of its own"
            elif family == "copy":
                whose = "copies and memory sets"
            elif family == "other":
                whose = "kernels its text does not define"
            percent = sum(share.percent for share in shares)
            yield f"{percent:.0f}% of device time in {whose} ({shares[0].name[:60]})"


class ForeignTime(Value):
    """Time of one call at one declared case, by a clock that runs in the solution's own process.

    The trusted side checks what can be checked from outside: outputs of timed calls it picks at random, its
    own clock over rows of calls, and physics.
    """

    case: str
    clock: Literal["events", "host"]
    """CUDA events, the whole device joined after each call; ``host`` where there is no GPU."""
    time_us: float
    low_us: float
    high_us: float
    """95% interval of the median over blocks."""
    samples: int
    checked: int
    """Timed calls whose outputs were compared, chosen by the trusted side while they were timed."""
    host_us: float
    """Host time of one call, Python included."""
    late_us: float = 0.0
    """Median time by which other streams ended after the current one; part of ``time_us``."""
    wall_us: float | None = None
    """One call by the trusted side's clock, less what a row without calls takes; None where unknown."""
    rivals: tuple[Rival, ...] = ()
    """Baselines, timed in turns in a process of their own."""
    missing: tuple[tuple[str, str], ...] = ()
    suspicion: str = ""


class ForeignReport(Value):
    """The trusted child to the parent, last."""

    outcome: Outcome
    checks: tuple[Check, ...] = ()
    fences: tuple[Fence, ...] = ()
    provenance: Provenance | None = None
    times: tuple[ForeignTime, ...] = ()
    notes: tuple[str, ...] = ()
    calls: int = 0
    """Calls whose outputs were compared."""
    build: str = ""
    """Which rung of the ``load_inline`` ladder took the solution's sources; empty when it built nothing."""
    replay: int = 0
    """Number that all seeds followed from."""
    versions: tuple[tuple[str, str], ...] = ()
    seconds: tuple[tuple[str, float], ...] = ()


class ForeignEvaluation(Value):
    """The verdict on one foreign solution, and on a GPU its time."""

    label: Literal["foreign"] = "foreign"
    solution: Digest
    problem: str
    device: str
    report: ForeignReport

    @property
    def passed(self) -> bool:
        """True for a right solution that tripped no wire."""
        return isinstance(self.report.outcome, Passed)
