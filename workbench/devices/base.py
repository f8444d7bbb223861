"""The one thing a device does, and a second one that some do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from workbench.model import CaseTime, Digest, Evaluation, Kernel, Measured, Problem, Profile, Stage, Target

OnStage = Callable[[Stage], None]
OnTime = Callable[[Digest, CaseTime], None]
"""Takes a kernel's digest and a first time of it."""

OnFollowed = Callable[[Digest, dict[str, Measured]], None]
"""Takes a kernel's digest and how each of its cases is measured by now."""


class Device(Protocol):
    """Judges kernels. Safe to call concurrently; ``parallel`` says how many at once make sense."""

    name: str
    """``emulator``, ``cuda`` or ``null``."""
    parallel: int

    @property
    def target(self) -> Target:
        """The card kernels are planned for; a GPU's own is known once its process is warm."""
        ...

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        """Judge one kernel. A bad kernel is an Outcome; only a broken machine raises ``DeviceError``."""
        ...

    async def close(self) -> None:
        """End worker processes; idempotent."""
        ...


@runtime_checkable
class Profiler(Protocol):
    """A device that can look closer at a kernel it has judged."""

    async def profile(self, problem: Problem, kernel: Kernel, evaluation: Evaluation) -> Profile | None:
        """Where the time goes, with counters where the card allows them; may take seconds.

        None where nothing can be said. Raises ``DeviceError`` when the machine fails.
        """
        ...


@runtime_checkable
class Early(Protocol):
    """A device that makes use of the time before the first kernel, and has numbers before the verdict."""

    def prepare(self, problem: Problem, on_time: OnTime) -> None:
        """Begin what every kernel of this problem will need, in the background; returns at once.

        From now on ``on_time`` is called, on any thread, with times of kernels that are still being judged.
        """
        ...


@runtime_checkable
class Follower(Protocol):
    """A device that times some baselines after the verdict, while nobody wants it."""

    def follow(self, on_followed: OnFollowed) -> None:
        """From now on call ``on_followed``, on any thread, with kernels held against more baselines."""
        ...


@runtime_checkable
class Sanitizer(Protocol):
    """A device that can have compute-sanitizer look at a kernel while nobody wants it."""

    async def sanitize(self, problem: Problem, kernel: Kernel) -> str:
        """What was found, or why nobody looked, in a sentence; may take as long as the device is busy.

        Raises ``DeviceError`` once closed.
        """
        ...
