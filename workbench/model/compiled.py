"""What is known of a kernel before it runs, and what the emulator counted: exact numbers, no times."""

from __future__ import annotations

from typing import Literal

from workbench.model.value import Value


class Diagnostic(Value):
    """One message of a compiler or of the plan's interpreter, at the person's own line."""

    severity: Literal["error", "warning", "note"] = "error"
    file: str = "kernel.cu"
    line: int
    column: int = 0
    message: str
    caret: str = ""
    """The source line and, under it, a caret; empty when unknown."""


class Resources(Value):
    """What ptxas reports for one kernel instantiation."""

    kernel: str
    consts: tuple[tuple[str, str], ...] = ()
    registers: int
    shared_bytes: int
    """Static shared memory."""
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    barriers: int = 0


class CompileReport(Value):
    """A successful NVRTC compilation of every instantiation the plans of the declared cases launch."""

    arch: str
    kernels: tuple[Resources, ...]
    warnings: tuple[Diagnostic, ...] = ()
    seconds: float
    cached: bool
    nvrtc: str
    """Version of the compiler."""


class PlanFacts(Value):
    """What the plan alone says about one case, before anything runs."""

    case: str
    launches: int
    kernels: tuple[str, ...]
    bytes_min: int
    """Inputs read once plus outputs written once."""
    bytes_plan: int
    """Every tensor argument of every step, once a step: an upper bound without re-reads."""
    workspace_bytes: int
    library_calls: tuple[str, ...] = ()
    library_share: float = 0.0
    """Share of ``bytes_plan`` moved by library steps."""


class AccessSite(Value):
    """Memory requests of one source line, warp by warp, as the emulator counted them."""

    line: int
    space: Literal["global", "shared"]
    kind: Literal["load", "store", "atomic"]
    width_bytes: int
    """Bytes one thread moves with one request."""
    requests: int
    transactions: int
    """32-byte sectors (global) or wavefronts (shared)."""
    ideal_transactions: int


class Counts(Value):
    """Emulator counts of one run at one case; a count is exact, it is not a time."""

    case: str
    launches: int
    sectors: int
    """32-byte sectors of global memory requested, loads, stores and atomics."""
    ideal_sectors: int
    load_bytes: int
    store_bytes: int
    barriers: int
    sites: tuple[AccessSite, ...] = ()
