"""The emulator as a device: kernels of one session meet the same inputs, but for one check of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from softmax_problem import PROBLEM, RIGHT

from workbench.devices.emulator import EmulatorDevice
from workbench.model import Check, Evaluation, Kernel
from workbench.referee.options import SEED, JudgeOptions

KERNELS = [Kernel(source=RIGHT), Kernel(source=RIGHT + "// the same once more\n")]


def checks(device: EmulatorDevice) -> list[list[Check]]:
    async def work() -> list[Evaluation]:
        try:
            return [await device.evaluate(PROBLEM, kernel, lambda stage: None) for kernel in KERNELS]
        finally:
            await device.close()

    return [list(evaluation.checks) for evaluation in asyncio.run(work())]


def test_all_checks_but_one_have_the_seeds_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SEED, raising=False)
    first, second = checks(EmulatorDevice())
    assert len(first) == len(second)
    others = [one for one, other in zip(first, second, strict=True) if one.seed != other.seed]
    assert len(others) == 1 and others[0].inputs == "normal"


def test_a_seed_that_is_asked_for_is_all_there_is() -> None:
    first, second = checks(EmulatorDevice(options=JudgeOptions(seed=3)))
    assert [one.seed for one in first] == [one.seed for one in second]


def test_what_is_kept_is_gone_with_the_device() -> None:
    device = EmulatorDevice(options=JudgeOptions(seed=3))
    folder = Path(device._kept.folder)
    checks(device)
    assert not folder.exists()
