"""Every error the workbench raises on purpose.

* WorkbenchError
  * UsageError         the person can fix the cell, the file or the option
    * ProblemError     the reference, its inputs or its shapes cannot be worked with
  * PlanError          the plan of a candidate is malformed; becomes an Outcome, never reaches a person raw
    * NotCovered       a ``require`` of the plan turned the inputs away
  * EmulatorError      a kernel the CPU emulator cannot run; becomes an Outcome or a note, with diagnostics
    * EmulatorBuildError   g++ does not take the source
    * EmulatorLaunchError  a launch a GPU would refuse: arguments, block size, shared memory
    * EmulatorUnsupported  correct CUDA, perhaps, that the emulator does not cover yet: judges nothing
  * GpuError           a kernel the GPU's driver refuses to load or to launch; becomes an Outcome
    * GpuFault         a kernel broke the device's context: the process must end
  * AgentError         a brain gave no hypothesis or no kernel
  * DeviceError        the machine failed; the kernel was not judged
  * SessionError       the journal cannot be written, read or locked

A kernel that does not compile, crashes or is wrong is no error: it is an ``Outcome`` (see model/).
Messages are one or two lines: what is wrong, where, and what to do.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workbench.model import Diagnostic


class WorkbenchError(Exception):
    """Base class, so that a magic or a command has one thing to catch."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback: the message says all that a person needs."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(WorkbenchError):
    """The person can fix it; the message says how."""


class ProblemError(UsageError):
    """The reference, its inputs or its shapes cannot be worked with."""


class PlanError(WorkbenchError):
    """A plan that cannot be parsed or interpreted. ``diagnostics`` carry the person's own line numbers."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("\n".join(f"line {d.line}: {d.message}" for d in diagnostics))
        self.diagnostics = diagnostics


class NotCovered(PlanError):
    """A ``require`` said no: the kernel does not claim to handle these inputs. Coverage, not a failure."""


class EmulatorError(WorkbenchError):
    """The emulator did not run a kernel. ``diagnostics`` carry the person's own line numbers."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("\n".join(f"line {d.line}: {d.message}" for d in diagnostics))
        self.diagnostics = diagnostics


class EmulatorBuildError(EmulatorError):
    """g++ does not take the source; NVRTC, asked first, may have."""


class EmulatorLaunchError(EmulatorError):
    """A launch that a GPU would refuse: argument count or types, block size, shared memory."""


class EmulatorUnsupported(EmulatorError):
    """The kernel uses what the emulator does not cover yet; nothing is said about the kernel."""


class GpuError(WorkbenchError):
    """The GPU's driver refused a kernel: too much shared memory, too many registers, not its machine code.

    ``line`` is the plan's line that launches it, where known.
    """

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


class GpuFault(GpuError):
    """A kernel broke the device's context; every later call in this process fails as well."""


class AgentError(WorkbenchError):
    """A brain failed to answer; no kernel was proposed."""


class DeviceError(WorkbenchError):
    """The machine failed, not the kernel; nothing was judged."""


class SessionError(WorkbenchError):
    """The session's folder is locked, damaged or full."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for a misspelt word, or an empty string."""
    close = get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def said_by(error: BaseException) -> str:
    """A line about any error: ours say what to do, the text of another may be a bare name."""
    return str(error) if isinstance(error, WorkbenchError) else f"{type(error).__name__}: {error}"
