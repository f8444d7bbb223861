"""A device that remembers: evaluations come from a recording, and only what is new goes to another device."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from workbench.devices.base import Device, OnStage
from workbench.errors import DeviceError
from workbench.model import Digest, Evaluation, Kernel, Problem, Target


class RecordedDevice:
    """Judges by what was found before; needs no GPU.

    ``otherwise`` opens a device for a kernel that the recording does not hold, such as a person's edit; it
    is opened when it is first needed. ``at_new`` is told of every such kernel.
    """

    parallel = 4

    def __init__(
        self,
        name: str,
        target: Target,
        evaluations: Mapping[Digest, Evaluation],
        otherwise: Callable[[], Device] | None = None,
        at_new: Callable[[Kernel], None] = lambda kernel: None,
    ) -> None:
        self.name = name
        self.target = target
        self._evaluations = evaluations
        self._otherwise = otherwise
        self._at_new = at_new
        self._other: Device | None = None

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        """The recorded evaluation. Raises ``DeviceError`` for a new kernel where there is no other device."""
        known = self._evaluations.get(kernel.digest)
        if known is not None:
            on_stage("running")
            await asyncio.sleep(0)
            return known
        self._at_new(kernel)
        if self._otherwise is None:
            raise DeviceError("the recording does not hold this kernel, and there is no device to judge it")
        if self._other is None:
            self._other = self._otherwise()
        return await self._other.evaluate(problem, kernel, on_stage)

    async def close(self) -> None:
        """End the other device; idempotent."""
        if self._other is not None:
            await self._other.close()
