"""How hard a kernel is looked at, and how long that may take."""

from __future__ import annotations

from workbench.model import Value
from workbench.numerics.kinds import KINDS, InputKind


class JudgeOptions(Value):
    """The defaults judge a small kernel in a second or two on two cores."""

    seed: int = 0
    """Shifts every seed of the inputs; the same kernel, problem and seed give the same verdict."""
    kinds: tuple[InputKind, ...] = KINDS
    """Kinds of input beside the person's own tensors."""
    races: bool = True
    """Look for races and for shared memory read before it was written, at the smaller sizes."""
    wall_s: float = 60.0
    """Wall seconds for building and running all checks."""
    memory_bytes: int = 3 * 2**30
    """Private memory of the process that runs the kernel."""
    most_elements: int = 2**22
    """Declared cases up to this size may stand in where there is no small size to check on."""
    traced_threads: int = 2**15
    """Races are looked for in launches of up to this many threads together."""
