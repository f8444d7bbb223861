"""How hard a kernel is looked at, and how long that may take."""

from __future__ import annotations

import os
import secrets

from workbench.errors import UsageError
from workbench.model import Value
from workbench.numerics.kinds import KINDS, InputKind

SEED = "WORKBENCH_SEED"
"""Environment variable that fixes the seed of every judgement, for lessons, tests and replays."""
SEEDS = 10**9


class JudgeOptions(Value):
    """The defaults judge a small kernel in a second or two on two cores."""

    seed: int | None = None
    """Shifts every seed of the inputs; the same kernel, problem and seed give the same verdict. None draws
    one, so that no kernel can be written for the inputs it will meet; the evaluation says which it was."""
    own_seed: int | None = None
    """Seed of one check more, of this kernel only: a GPU's oracles are kept from kernel to kernel. A receipt
    holds it, and what is judged again from a receipt meets it again."""
    kinds: tuple[InputKind, ...] = KINDS
    """Kinds of input beside the person's own tensors."""
    races: bool = True
    """Look for races and for shared memory read before it was written."""
    cpu_s: int = 120
    """Processor seconds for building and running all checks, of each process: that the machine does much else
    is no fault of a kernel's."""
    wall_s: float = 600.0
    """Wall seconds for the same. Only what waits for ever, using no processor, should meet it."""
    memory_bytes: int = 3 * 2**30
    """Private memory of the process that runs the kernel."""
    most_elements: int = 2**22
    """Declared cases up to this size may stand in where there is no small size to check on."""
    traced_threads: int = 2**15
    """Races are looked for in all blocks of a launch of up to this many threads, in some of a larger one."""

    def drawn(self) -> JudgeOptions:
        """With a seed: the given one, else that of ``$WORKBENCH_SEED``, else a fresh one.

        Raises ``UsageError`` when the environment holds something else than a number.
        """
        return self if self.seed is not None else self.model_copy(update={"seed": fresh_seed()})

    @property
    def first_seed(self) -> int:
        """Seed of the first check; the next ones follow it."""
        return 1000 * (self.seed or 0) + 1


def fresh_seed() -> int:
    """A number nobody knows yet, or the one the environment asks for."""
    asked = os.environ.get(SEED, "")
    if not asked:
        return secrets.randbelow(SEEDS)
    if not asked.isdigit():
        raise UsageError(f"{SEED} is {asked!r}: it must be a whole number, or not be set")
    return int(asked)
