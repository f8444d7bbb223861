"""The cuda device on a real card: verdicts, recovery, times."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest
from breaking import KERNELS, SOFTMAX
from softmax_problem import RIGHT

from workbench.devices.cards import probed, usable
from workbench.devices.cuda import CudaDevice
from workbench.model import Evaluation, Kernel, Passed
from workbench.referee.gpu_judge import GpuOptions

GPU, WHY_NOT = usable(probed())
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPU is None, reason=f"no usable GPU: {WHY_NOT}")]


@pytest.fixture(scope="module")
def device() -> Iterator[CudaDevice]:
    assert GPU is not None
    opened = CudaDevice(GPU.index, GPU.uuid, GpuOptions(timing=False, kernel_s=2.0))
    yield opened
    asyncio.run(opened.close())


def judged(device: CudaDevice, kernel: Kernel) -> Evaluation:
    return asyncio.run(device.evaluate(SOFTMAX, kernel, lambda stage: None))


def test_the_right_kernel_passes(device: CudaDevice) -> None:
    evaluation = judged(device, Kernel(source=RIGHT))
    assert evaluation.outcome == Passed()
    assert evaluation.device == "cuda" and evaluation.target == device.target.name


@pytest.mark.parametrize("name", KERNELS)
def test_a_breaking_kernel_costs_its_own_branch_only(device: CudaDevice, name: str) -> None:
    breaking = KERNELS[name]
    evaluation = judged(device, breaking.kernel)
    assert evaluation.outcome.kind in breaking.outcomes, evaluation.outcome
    assert breaking.word in evaluation.outcome.model_dump_json()
    assert judged(device, Kernel(source=RIGHT)).outcome == Passed()


def test_times_are_measured_against_eager() -> None:
    assert GPU is not None
    own = CudaDevice(GPU.index, GPU.uuid, GpuOptions(baselines=("eager",)))
    evaluation = judged(own, Kernel(source=RIGHT))
    asyncio.run(own.close())
    assert evaluation.outcome == Passed()
    for time in evaluation.times:
        assert time.source == "measured" and time.measured is not None
        assert time.floor_us < time.time_us < 1e5
        assert dict(time.baselines)["eager"] > 0


IN_TWO_STEPS = """/* plan
def plan(x):
    require(x.is_contiguous, "x must be contiguous")
    shifted = library("aten.neg", library("aten.neg", x))
    y = empty_like(x)
    launch("softmax_rows<128>", grid=x.shape[0], block=128, args=[shifted, y, x.shape[1]])
    return y
*/
"""


def test_every_step_of_a_plan_is_timed_where_cupti_is() -> None:
    """The two negations take as long as each other, roughly, and all three together as long as the whole."""
    pytest.importorskip("cupti")
    assert GPU is not None
    own = CudaDevice(GPU.index, GPU.uuid, GpuOptions(baselines=("eager",)))
    evaluation = judged(own, Kernel(source=IN_TWO_STEPS + RIGHT.partition("*/")[2]))
    asyncio.run(own.close())
    assert evaluation.outcome == Passed()
    for time in evaluation.times:
        assert time.measured is not None
        first, second, kernel = time.measured.steps
        assert [first.step, second.step, kernel.kind] == ["aten.neg", "aten.neg", "kernel"]
        assert 0.3 < sum(step.time_us for step in time.measured.steps) / time.time_us < 2
        assert 0.3 < first.time_us / second.time_us < 3
        assert time.measured.library_share is not None and 0 < time.measured.library_share < 1


def test_this_process_holds_no_cuda() -> None:
    code = (
        "import asyncio, sys; from workbench.devices.select import open_device;"
        "d = open_device('cuda'); d.target; asyncio.run(d.close());"
        "assert 'torch' not in sys.modules and 'cuda' not in sys.modules;"
        "assert 'libcuda' not in open('/proc/self/maps').read()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
