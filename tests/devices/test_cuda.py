"""The cuda device from plan to verdict, with a pretended GPU behind it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from breaking import SOFTMAX
from pretended_gpu import CARD
from softmax_problem import RIGHT, changed

from workbench.devices.cuda import CudaDevice
from workbench.errors import DeviceError
from workbench.model import (
    H100,
    CaseTime,
    CompileFailed,
    Crashed,
    Evaluation,
    Hazard,
    Kernel,
    Passed,
    Resources,
)
from workbench.plan.steps import Launch
from workbench.referee import matrix
from workbench.referee.gpu_expectation import Expectations
from workbench.referee.gpu_judge import GpuJudgement, GpuOptions, does_not_fit
from workbench.referee.gpu_preparation import preparation
from workbench.referee.gpu_preparing import prepared
from workbench.referee.protocol import Trial
from workbench.referee.receipts import read_receipt
from workbench.referee.replay import hashes, plans

SMALL = SOFTMAX.model_copy(
    update={
        "cases": tuple(
            c.model_copy(update={"sizes": (("s0", 8), ("s1", 64)), "label": "8x64"})
            for c in SOFTMAX.cases[:1]
        )
    }
)

PLAIN = GpuOptions(hazards=False)


def breaking(word: str) -> Kernel:
    """The right kernel, with a const that tells the pretended GPU how to fail."""
    return changed("args=[x, y, cols])", f'args=[x, y, cols], const={{"BREAK": {word}}})')


@pytest.fixture(scope="module")
def device() -> Iterator[CudaDevice]:
    opened = CudaDevice(options=PLAIN, serve="pretended_gpu:serve")
    yield opened
    asyncio.run(opened.close())


def judged(device: CudaDevice, kernel: Kernel) -> Evaluation:
    return asyncio.run(device.evaluate(SMALL, kernel, lambda stage: None))


def test_the_right_kernel_passes_with_a_measured_time(device: CudaDevice) -> None:
    evaluation = judged(device, Kernel(source=RIGHT))
    assert evaluation.outcome == Passed()
    assert (evaluation.device, evaluation.target) == ("cuda", CARD.target.name)
    (time,) = evaluation.times
    assert (time.source, time.time_us, time.baselines) == ("measured", 10.0, (("eager", 20.0),))
    assert evaluation.score == 2.0 and evaluation.counts == ()
    assert evaluation.compiled is not None and len(evaluation.compiled.kernels) == 1
    assert {c.case for c in evaluation.checks} >= {"8x64", "3x7", "4x128 unaligned"}
    assert [case for case, _, _ in evaluation.card_bytes] == ["8x64"]


def test_a_receipt_holds_what_the_times_rest_on(tmp_path: Path) -> None:
    own = CudaDevice(options=PLAIN, serve="pretended_gpu:serve")
    own.keep_receipts(tmp_path / "receipts")
    evaluation = judged(own, Kernel(source=RIGHT))
    asyncio.run(own.close())
    (time,) = evaluation.times
    assert time.measured is not None
    receipt = read_receipt(tmp_path / time.measured.receipt)
    assert receipt.kernel == Kernel(source=RIGHT) and receipt.machine.card == CARD.target.name
    assert receipt.machine.flags == (("cudnn.allow_tf32", False),)
    assert {finding.state for finding in (*hashes(receipt), *plans(receipt))} == {"agrees"}


@pytest.mark.parametrize(("word", "told"), [("1", "illegal address"), ("2", "SIGABRT")])
def test_a_kernel_that_breaks_the_process_costs_one_branch(device: CudaDevice, word: str, told: str) -> None:
    before = device.losses
    evaluation = judged(device, breaking(word))
    assert isinstance(evaluation.outcome, Crashed)
    assert told in evaluation.outcome.message and "normal inputs" in evaluation.outcome.message
    assert evaluation.times == () and device.losses == before + 1
    assert judged(device, Kernel(source=RIGHT)).outcome == Passed()


def test_a_kernel_that_does_not_compile_never_reaches_the_gpu(device: CudaDevice) -> None:
    evaluation = judged(device, changed("float top", "flaot top"))
    assert isinstance(evaluation.outcome, CompileFailed)


def test_a_block_that_does_not_fit_says_why() -> None:
    launch = Launch(kernel="k", grid=(1, 1, 1), block=(1024, 1, 1), args=(), line=3)
    used = Resources(
        kernel="k", registers=96, shared_bytes=0, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0
    )
    assert "98,304 registers" in does_not_fit(launch, used, H100)
    assert does_not_fit(launch, used.model_copy(update={"registers": 64}), H100) == ""
    much = used.model_copy(update={"registers": 32, "shared_bytes": 200_000})
    assert does_not_fit(launch, much, H100) == ""
    assert "shared memory" in does_not_fit(launch.model_copy(update={"shared_bytes": 40_000}), much, H100)


def test_the_emulator_beside_sees_what_a_gpu_does_not() -> None:
    own = CudaDevice(serve="pretended_gpu:serve")
    racy = changed(
        """        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
        __syncthreads();""",
        "        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];",
    )
    found = judged(own, racy).outcome
    right = judged(own, Kernel(source=RIGHT))
    asyncio.run(own.close())
    assert isinstance(found, Hazard) and found.hazard == "race" and found.line
    assert "right by luck" in found.message
    assert right.outcome == Passed() and right.counts and right.times[0].source == "measured"
    assert right.notes == ()


BY_HOPE = """/* plan
def plan(x):
    rows, cols = x.shape
    require(x.is_contiguous, "contiguous only")
    y = empty_like(x)
    arrived = zeros((1,), i32)
    launch("hope", grid=4, block=32, args=[x, arrived, y, rows, cols])
    return y
*/
__global__ void hope(const float* x, int* arrived, float* y, int rows, int cols) {
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        WAIT
    }
    __syncthreads();
    for (int row = blockIdx.x * 32 + threadIdx.x; row < rows; row += 128) {
        const float* from = x + size_t(row) * cols;
        float top = from[0], sum = 0.0f;
        for (int i = 1; i < cols; ++i) top = from[i] > top || from[i] != from[i] ? from[i] : top;
        for (int i = 0; i < cols; ++i) sum += expf(from[i] - top);
        for (int i = 0; i < cols; ++i) y[size_t(row) * cols + i] = expf(from[i] - top) / sum;
    }
}
"""


def test_blocks_that_wait_for_one_another_by_hope_are_a_hazard_on_the_card_too() -> None:
    """The card, which started all four blocks at once, found nothing wrong."""
    own = CudaDevice(serve="pretended_gpu:serve")
    kernel = Kernel(source=BY_HOPE.replace("WAIT", "while (atomicAdd(arrived, 0) < 4) {}"))
    found = judged(own, kernel).outcome
    asyncio.run(own.close())
    assert isinstance(found, Hazard) and found.hazard == "barrier"
    assert "write cooperative=True" in found.message and "right by luck" in found.message


def test_a_pass_on_which_the_emulator_gave_up_says_so() -> None:
    own = CudaDevice(serve="pretended_gpu:serve")
    found = judged(own, Kernel(source=BY_HOPE.replace("WAIT", "if (cols > 3) assert(sizeof(x) == 4);")))
    asyncio.run(own.close())
    assert found.outcome == Passed()
    (note,) = found.notes
    assert note.startswith("hazards were not looked for: the emulator came no further than ")
    assert "assert" in note


def test_what_a_kernel_prints_is_the_emulator_s_to_tell() -> None:
    own = CudaDevice(serve="pretended_gpu:serve")
    found = judged(own, changed("float top", 'if (threadIdx.x == 0) printf("here\\n");\n    float top'))
    asyncio.run(own.close())
    assert found.passed and found.printed is not None
    assert found.printed.text == "here\n" * found.printed.calls and found.printed.inputs == "normal"


def test_a_pass_without_a_look_at_hazards_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.referee.gpu_judge.available", lambda: False)
    own = CudaDevice(serve="pretended_gpu:serve")
    right = judged(own, Kernel(source=RIGHT))
    asyncio.run(own.close())
    assert right.outcome == Passed() and right.notes == ("hazards were not looked for: there is no g++",)


def test_several_at_once_take_turns(device: CudaDevice) -> None:
    async def work() -> list[Evaluation]:
        kernels = (Kernel(source=RIGHT), breaking("1"), Kernel(source=RIGHT + "\n"))
        return await asyncio.gather(*(device.evaluate(SMALL, k, lambda s: None) for k in kernels))

    found = asyncio.run(work())
    assert [e.passed for e in found] == [True, False, True]


def test_closed_says_so() -> None:
    own = CudaDevice(options=PLAIN, serve="pretended_gpu:serve")
    asyncio.run(own.close())
    asyncio.run(own.close())
    with pytest.raises(DeviceError, match="closed"):
        judged(own, Kernel(source=RIGHT))


def test_the_process_of_the_device_has_neither_torch_nor_cuda() -> None:
    code = (
        "import asyncio, sys; from workbench.devices.cuda import CudaDevice;"
        "d = CudaDevice(serve='pretended_gpu:serve'); print(d.target.name); asyncio.run(d.close());"
        "assert not {'torch', 'cuda'} & set(sys.modules)"
    )
    path = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=path)
    assert done.stdout.strip() == CARD.target.name


def test_a_first_time_comes_before_the_verdict_until_compile_is_there() -> None:
    own = CudaDevice(options=PLAIN, serve="pretended_gpu:serve")
    told: list[tuple[str, CaseTime]] = []
    own.prepare(SMALL, lambda kernel, time: told.append((kernel, time)))
    for _ in range(2):
        evaluation = judged(own, Kernel(source=RIGHT))
    asyncio.run(own.close())
    assert evaluation.outcome == Passed() and len(evaluation.times) == 1
    ((kernel, time),) = told  # the second kernel finds torch.compile done
    assert kernel == evaluation.kernel and (time.case, time.source) == ("8x64", "measured")
    assert time.measured is not None and ("compile", "still being compiled") in time.measured.missing


def test_preparing_makes_what_a_kernel_is_held_against() -> None:
    request = preparation(SMALL, PLAIN.judge)
    known = Expectations(SMALL, "cpu")
    report = prepared(request, known)
    assert report.machine == "" and report.checks > 10
    kept = dict(known._kept._held)
    again = prepared(request, known)
    assert again.checks == report.checks
    assert {key: one is known._kept._held[key][0] for key, (one, _) in kept.items()} == dict.fromkeys(
        kept, True
    )


def test_what_preparing_makes_is_what_a_kernel_asks_for() -> None:
    known = Expectations(SMALL, "cpu")
    prepared(preparation(SMALL, PLAIN.judge), known)
    before = len(known._kept._held)
    plans = GpuJudgement(SMALL, Kernel(source=RIGHT), H100, PLAIN.judge, lambda stage: None)
    assert plans._planned() is None
    trials = tuple(Trial(case=case, plan=plan) for case, plan in plans.plans.items())
    checks = matrix.checks_on_gpu(trials, PLAIN.judge, SMALL.own_inputs)
    for planned in checks:
        known.prepare(planned)
    assert len(checks) > 10 and len(known._kept._held) == before
