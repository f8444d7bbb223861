"""The emulator's frozen values: what is built, how it is run, what was seen.

Owns the values that cross a process as JSON. Never holds a tensor or a loaded library.
"""

from __future__ import annotations

from typing import Literal

from workbench.model import Counts, Diagnostic, Hazard, Printed, Value

Mode = Literal["plain", "checked"]
"""``plain``: optimised, numbers only. ``checked``: every load and store is looked at."""

BlockOrder = Literal["by number", "last first", "drawn"]

Consts = tuple[tuple[str, str], ...]
Instance = tuple[str, Consts]


class Binary(Value):
    """One shared library: the source compiled with one set of compile-time macros."""

    consts: Consts
    kernels: tuple[str, ...]
    """Name expressions, in the order of the library's entry points."""
    path: str
    text_bytes: int
    """End of the code, as an offset from the load address."""
    touch_offset: int
    """Offset of ``emu_touch``, from which the load address is known."""
    shared_arrays: tuple[tuple[str, int, int], ...] = ()
    """Name, low and high offset in the thread-local segment of each static ``__shared__`` array."""
    guards: tuple[int, ...] = ()
    dynamic_offset: int | None = None
    """Thread-local offset of ``extern __shared__``."""
    data: tuple[int, int] = (0, 0)
    """Offsets of ``__device__`` and ``__constant__`` variables."""
    variables: tuple[tuple[str, int, int], ...] = ()
    """Name, low and high offset of each ``__device__`` and ``__constant__`` variable."""
    shadow_shift: int = 2
    """log2 of the smallest element the source mentions, bytes: the grain of the race detector."""
    remarks: tuple[Diagnostic, ...] = ()
    """What the compiler doubts."""


class Module(Value):
    """A candidate built for the emulator; hold it, send it, load it in the process that executes."""

    mode: Mode
    binaries: tuple[Binary, ...]
    seconds: float
    cached: bool

    def find(self, instance: Instance) -> tuple[Binary, int]:
        """Return the library of an instance and its entry point. Raises ``KeyError``."""
        kernel, consts = instance
        for binary in self.binaries:
            if binary.consts == consts and kernel in binary.kernels:
                return binary, binary.kernels.index(kernel)
        raise KeyError(instance)


class Options(Value):
    """How a plan is executed. The defaults suit a correctness check."""

    case: str = ""
    """Label for counts and hazards."""
    statistics: bool = True
    """Count sectors and wavefronts (checked modules only)."""
    initialised: bool = True
    """Report outputs and workspaces read before they were written (checked modules only)."""
    races: bool = False
    """Report races and shared memory read before it was written (checked modules only); twice the time."""
    workers: int = 0
    """OS threads; 0 takes one for a checked module and all cores this process may use for a plain one."""
    reverse: bool = False
    """Threads of a block take their turns from the last to the first."""
    undefined: int = 0
    """Which value a shuffle gives for a lane that takes no part: 0 is all ones, 1 and 2 are large numbers of
    either sign. A kernel whose results depend on it uses what is undefined."""
    traced_blocks: int = 1024
    """Statistics look at about this many blocks of a launch at most; bounds are checked in all of them."""
    raced_threads: int = 2**15
    """Of a launch of more threads races are looked for in some blocks only, which are drawn."""
    order: BlockOrder = "by number"
    """In which order blocks begin."""
    resident: int = 0
    """Blocks that are on the card at the same time and take turns (checked modules only); 0 has each run to
    its end before the next one begins."""
    draw: int = 0
    """From which number is drawn what a kernel must not know: when the clock began, which blocks are looked
    at, in which order they begin."""


class LaunchCounts(Value):
    """What one launch asked of memory."""

    kernel: str
    line: int
    """Line of the ``launch`` in the plan."""
    blocks: int
    traced_blocks: int
    """Blocks whose accesses were counted; where fewer than all, the counts are scaled up."""
    sectors: int
    ideal_sectors: int
    load_bytes: int
    store_bytes: int
    barriers: int
    warp_operations: int
    unit_products: int = 0
    """Of tensor cores, each with its addition."""


class Unwritten(Value):
    """Elements of an output that no launch wrote."""

    output: int
    elements: int
    first: tuple[int, ...]
    """Index of the first one."""


class RunReport(Value):
    """All that was seen in one execution of a plan, apart from the output tensors."""

    case: str = ""
    mode: Mode
    hazards: tuple[Hazard, ...] = ()
    trap: str | None = None
    """Message of an ``assert`` or ``__trap()`` that stopped the run."""
    stopped: bool = False
    """True when a fault ended the run early: the outputs mean nothing."""
    counts: Counts | None = None
    """None for plain modules."""
    launches: tuple[LaunchCounts, ...] = ()
    absent_lanes: tuple[Hazard, ...] = ()
    """Shuffles that read a lane which takes no part: harmless unless somebody uses what comes."""
    contested: tuple[Hazard, ...] = ()
    """Different values that lanes write to one place at once: harmless unless it matters which stays."""
    printed: Printed | None = None
    """What the kernel's ``printf`` wrote."""
    remarks: tuple[Diagnostic, ...] = ()
    """What the compiler doubts in the libraries that ran."""
    unwritten: tuple[Unwritten, ...] = ()
    converses: bool = False
    """True when blocks of a launch may tell one another something: where they begin in another order that may
    show. Looked for with races."""
    kept: tuple[str, ...] = ()
    """``__device__`` variables that the run left with other values than they had: it can tell runs apart."""
    seconds: float = 0.0
    """Wall time of the launches on this CPU; says nothing about a GPU."""
