"""What the foreign lane is asked and what it answers; frozen values, no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from workbench.model import Check, Digest, Outcome, Passed, Problem, Value

LONGEST = 2000


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


class Provenance(Value):
    """Which code did the work, from a profile the solution's process took of itself."""

    shares: tuple[Share, ...] = ()
    own_calls: tuple[str, ...] = ()
    """Functions of extensions the solution built, or kernels of its own, that ran."""
    claims: tuple[str, ...] = ()
    """Ways to bring a kernel that its text uses: ``load_inline``, ``triton.jit``, ..."""

    @property
    def sentence(self) -> str:
        """Such as ``aten::softmax does 96% of the time``."""
        parts = [f"{share.name} does {share.percent:.0f}% of the time" for share in self.shares[:2]]
        parts += [f"own code that ran: {', '.join(self.own_calls[:3])}"] if self.own_calls else []
        return "; ".join(parts)


class ForeignReport(Value):
    """The trusted child to the parent, last."""

    outcome: Outcome
    checks: tuple[Check, ...] = ()
    fences: tuple[Fence, ...] = ()
    provenance: Provenance | None = None
    notes: tuple[str, ...] = ()
    calls: int = 0
    """Calls whose outputs were compared."""
    build: str = ""
    """Which rung of the ``load_inline`` ladder took the solution's sources; empty when it built nothing."""
    replay: int = 0
    versions: tuple[tuple[str, str], ...] = ()
    seconds: tuple[tuple[str, float], ...] = ()


class ForeignEvaluation(Value):
    """The verdict on one foreign solution. Never a time: the lane has no clock yet."""

    label: Literal["foreign"] = "foreign"
    solution: Digest
    problem: str
    device: str
    report: ForeignReport

    @property
    def passed(self) -> bool:
        """True for a right solution that tripped no wire."""
        return isinstance(self.report.outcome, Passed)
