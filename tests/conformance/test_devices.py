"""What every device promises, asked of each one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from softmax_problem import PROBLEM, RIGHT

from workbench.devices.base import Device
from workbench.devices.emulator import EmulatorDevice
from workbench.devices.null import NullDevice
from workbench.errors import DeviceError
from workbench.model import CompileFailed, Evaluation, Kernel, Passed, Stage


@dataclass(frozen=True)
class Kind:
    """A device with a kernel that passes on it and one that does not compile."""

    open: Callable[[], Device]
    good: Kernel
    bad: Kernel


KINDS = {
    "null": Kind(NullDevice, Kernel(source="// null: passed 10"), Kernel(source="// null: compile_failed")),
    "emulator": Kind(
        EmulatorDevice, Kernel(source=RIGHT), Kernel(source=RIGHT.replace("float top", "flaot top"))
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def evaluated(kind: Kind, kernel: Kernel) -> tuple[Evaluation, list[Stage]]:
    stages: list[Stage] = []

    async def work() -> Evaluation:
        device = kind.open()
        try:
            return await device.evaluate(PROBLEM, kernel, stages.append)
        finally:
            await device.close()

    return asyncio.run(work()), stages


def test_a_good_kernel_passes_with_a_time_for_every_declared_case(kind: Kind) -> None:
    evaluation, stages = evaluated(kind, kind.good)
    assert isinstance(evaluation.outcome, Passed)
    assert [t.case for t in evaluation.times] == [c.label for c in PROBLEM.cases]
    assert evaluation.score > 0
    assert stages == ["compiling", "running"]


def test_a_bad_kernel_is_an_outcome_without_times(kind: Kind) -> None:
    evaluation, stages = evaluated(kind, kind.bad)
    assert isinstance(evaluation.outcome, CompileFailed)
    assert evaluation.times == ()
    assert stages[0] == "compiling"


def test_an_evaluation_names_kernel_device_and_target_and_survives_json(kind: Kind) -> None:
    evaluation, _ = evaluated(kind, kind.good)
    device = kind.open()
    assert evaluation.kernel == kind.good.digest
    assert evaluation.device == device.name
    assert evaluation.target == device.target.name
    assert Evaluation.model_validate_json(evaluation.model_dump_json()) == evaluation


def test_several_at_once_do_not_mix(kind: Kind) -> None:
    async def work() -> list[Evaluation]:
        device = kind.open()
        assert device.parallel >= 1
        kernels = (kind.good, kind.bad, kind.good)
        try:
            return await asyncio.gather(*(device.evaluate(PROBLEM, k, lambda s: None) for k in kernels))
        finally:
            await device.close()

    evaluations = asyncio.run(work())
    assert [e.passed for e in evaluations] == [True, False, True]
    assert [e.kernel for e in evaluations] == [kind.good.digest, kind.bad.digest, kind.good.digest]


def test_close_may_be_called_again(kind: Kind) -> None:
    async def work() -> None:
        device = kind.open()
        await device.close()
        await device.close()

    asyncio.run(work())


def test_stages_arrive_on_the_loop_s_own_thread(kind: Kind) -> None:
    async def work() -> None:
        device, loop = kind.open(), asyncio.get_running_loop()

        def on_stage(stage: Stage) -> None:
            assert asyncio.get_running_loop() is loop

        try:
            await device.evaluate(PROBLEM, kind.good, on_stage)
        finally:
            await device.close()

    asyncio.run(work())


def test_a_closed_emulator_says_so() -> None:
    async def work() -> None:
        device = EmulatorDevice()
        await device.close()
        await device.evaluate(PROBLEM, Kernel(source=RIGHT), lambda s: None)

    with pytest.raises(DeviceError, match="closed"):
        asyncio.run(work())
