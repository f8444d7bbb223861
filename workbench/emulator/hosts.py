"""Where a launch runs: in this process, or in one that holds nothing worth stealing (runner.py).

Owns the interface between carrying out a plan and the process that loads the kernel. Imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from workbench.emulator import module, result
from workbench.emulator.module import Geometry, Memory
from workbench.emulator.result import LaunchResult
from workbench.emulator.values import Binary
from workbench.model import Printed


@dataclass(frozen=True)
class Work:
    """One launch, in addresses."""

    binary: Binary
    entry: int
    geometry: Geometry
    cells: tuple[bytes, ...]
    """The arguments' bytes; pointers are addresses in storage of the host."""
    memory: tuple[Memory, ...]


class RunnerEnded(Exception):
    """The process a launch ran in ended or spoke nonsense: the kernel's doing."""

    def __init__(self, message: str, cpu_s: float | None = None, result: LaunchResult | None = None) -> None:
        super().__init__(message)
        self.cpu_s = cpu_s
        """Processor time it had used, where it ran out of it."""
        self.result = result
        """What the launch still said when it was stopped."""
        self.pc = 0
        """Offset of an instruction at which one of its threads was then."""
        self.line: int | None = None
        """Where one of its threads was then."""
        self.printed: Printed | None = None


class Host(Protocol):
    """Has memory that a kernel can reach, and runs launches on it."""

    shared: bool
    """True when the memory is used again by the next execution: results must be copied out."""

    def begin(self) -> None:
        """A new execution starts: storage of the one before is not needed any more."""
        ...

    def storage(self, nbytes: int) -> torch.Tensor:
        """Bytes that the kernel can reach, contents undefined. Raises ``MemoryError``."""
        ...

    def signature(self, binary: Binary, entry: int) -> tuple[str, ...]:
        """One code a parameter of a kernel: see ``LoadedBinary.signature``."""
        ...

    def launch(self, work: Work) -> LaunchResult:
        """Run one launch to its end. What it reports of itself is not to be trusted further than shown."""
        ...

    def kept(self, binary: Binary) -> tuple[str, ...]:
        """Variables of a library that its launches have changed for good."""
        ...


class InProcess:
    """The calling process: for a kernel that was judged before, and for the emulator's own tests."""

    shared = False

    def begin(self) -> None:
        """Nothing is kept."""

    def storage(self, nbytes: int) -> torch.Tensor:
        """Ordinary memory."""
        return torch.empty(nbytes, dtype=torch.uint8)

    def signature(self, binary: Binary, entry: int) -> tuple[str, ...]:
        """Loads the library."""
        return module.load(binary).signature(entry)

    def launch(self, work: Work) -> LaunchResult:
        """Runs here; a crash of the kernel's code may take the process with it."""
        text = module.load(work.binary).launch(work.entry, work.geometry, work.cells, work.memory)
        return result.read(text)

    def kept(self, binary: Binary) -> tuple[str, ...]:
        """Looks at the library here."""
        return module.load(binary).kept()


IN_PROCESS = InProcess()
