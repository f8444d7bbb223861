"""A receipt replayed: everything that can be checked here, and a new measurement where there is a GPU.

Owns the order and what is said of a machine without a GPU. The checks are the referee's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from workbench.devices.base import Device
from workbench.devices.select import open_device
from workbench.errors import DeviceError, UsageError
from workbench.model import Evaluation
from workbench.referee.receipts import Receipt
from workbench.referee.replay import Finding, rechecked, remeasured


def replay(receipt: Receipt, device: str = "auto") -> Iterator[Finding]:
    """Findings as they come. ``device``: ``auto`` and ``cuda`` measure again, ``emulator`` does not.

    Raises ``UsageError`` for ``cuda`` without a GPU, and ``DeviceError`` for a machine that cannot check.
    """
    yield from rechecked(receipt)
    machine, reason = _gpu(device)
    if machine is None:
        yield Finding(what="new measurement", state="not checked", detail=reason)
        return
    try:
        evaluation = asyncio.run(_evaluated(machine, receipt))
    except DeviceError as error:
        yield Finding(what="new measurement", state="not checked", detail=str(error))
        return
    yield from remeasured(receipt, evaluation)


def _gpu(device: str) -> tuple[Device | None, str]:
    if device == "emulator":
        return None, "only a GPU can measure"
    try:
        machine = open_device("cuda")
    except (UsageError, DeviceError) as error:
        if device == "cuda":
            raise
        return None, str(error)
    return machine, ""


async def _evaluated(machine: Device, receipt: Receipt) -> Evaluation:
    repeat = getattr(machine, "repeat_seeds", None)
    if repeat is not None:
        repeat(receipt.seed, receipt.own_seed)
    try:
        return await machine.evaluate(receipt.problem, receipt.kernel, lambda stage: None)
    finally:
        await machine.close()
