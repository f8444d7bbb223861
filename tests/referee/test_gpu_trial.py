"""The GPU's lane without a GPU: the CPU stands in for the card, a torch function for the kernel."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
import torch
from softmax_problem import PROBLEM, RIGHT
from torch import Tensor

from workbench.errors import GpuError, GpuFault
from workbench.gpu.program import poisoned
from workbench.model import (
    H100,
    Case,
    Check,
    Crashed,
    Crossed,
    Difference,
    Hazard,
    LaunchFailed,
    Mismatch,
    Outcome,
    Passed,
    Problem,
    Suspect,
    TimedOut,
)
from workbench.plan.parse import parse
from workbench.plan.steps import Plan
from workbench.problem.reference import Reference
from workbench.referee import gpu_trial
from workbench.referee.gpu_expectation import Expectations, merged
from workbench.referee.gpu_protocol import CheckReport, CheckRequest, CubinImage
from workbench.referee.gpu_trial import Endless, Run, checked
from workbench.referee.matrix import PlannedCheck, checks_on_gpu
from workbench.referee.options import JudgeOptions
from workbench.referee.planning import plan_cases, situations
from workbench.referee.protocol import MESSAGE, CheckDone, Trial

Body = Callable[[Tensor], Tensor]
SMALL = PROBLEM.model_copy(
    update={"cases": (Case(label="40x64", sizes=(("s0", 40), ("s1", 64)), origin="declared"),)}
)


@dataclass
class Cpu:
    """Runs a torch function where a GPU would run a kernel."""

    body: Body
    device: str = "cpu"
    ending: BaseException | None = None
    fills: bool = True
    keeps: tuple[str, ...] = ()
    runs: list[bool] = field(default_factory=list)
    given: list[weakref.ref[Tensor]] = field(default_factory=list)
    held: set[int] = field(default_factory=set)
    """How many outputs of earlier runs were alive when a run began."""

    def runner(self, images: tuple[CubinImage, ...], plan: Plan) -> Run:
        def run(tensors: Mapping[str, Tensor], poison: bool = False) -> tuple[Tensor, ...]:
            self.runs.append(poison)
            self.held.add(sum(one() is not None for one in self.given))
            output = poisoned(torch.empty_like(tensors["x"]))
            result = self.body(tensors["x"])
            output[: len(result)] = result
            self.given.append(weakref.ref(output))
            return (output,)

        return run

    def marked(self, run: Run, mark: Callable[[], None]) -> Run:
        raise NotImplementedError  # nothing is timed here

    def kept(self, plan: Plan) -> tuple[str, ...]:
        return self.keeps

    def wait(self, limit_s: float) -> None:
        if self.ending is not None:
            raise self.ending

    def release(self) -> None:
        pass

    def peak_bytes(self) -> int:
        return 1


def trials(problem: Problem = SMALL) -> tuple[Trial, ...]:
    planned = plan_cases(parse(RIGHT), situations(problem), H100)
    return tuple(Trial(case=one.case, plan=one.plan) for one in planned if one.plan)


def judged(hardware: Cpu, problem: Problem = SMALL) -> tuple[CheckReport, list[CheckDone]]:
    request = CheckRequest(problem=problem, trials=trials(problem), images=(), options=JudgeOptions())
    said: list[CheckDone] = []

    def hear(message: bytes) -> None:
        heard = MESSAGE.validate_json(message)
        if isinstance(heard, CheckDone):
            said.append(heard)

    return checked(request, hear, hardware), said


def outcome(hardware: Cpu) -> Outcome:
    return judged(hardware)[0].outcome


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=1)


def test_an_output_is_given_back_before_the_next_run() -> None:
    """Two outputs of 6 GB at once were half of the memory a case needs."""
    hardware = Cpu(softmax)
    assert outcome(hardware) == Passed() and hardware.held == {0}


def test_the_right_kernel_passes_every_kind_at_proofs_and_declared_shapes() -> None:
    hardware = Cpu(softmax)
    report, said = judged(hardware)
    assert report.outcome == Passed() and not report.lost
    assert {c.check.case for c in said} >= {"40x64", "3x7", "2x1025", "4x128 unaligned"}
    assert {c.check.inputs for c in said if c.check.case == "40x64"} == {
        "normal", "offset", "heavy-tailed", "scale 64"
    }  # fmt: skip
    assert len({c.check.seed for c in said}) == len(said)
    assert all(hardware.runs)  # every output was poisoned before
    assert report.peak_bytes == (("40x64", 1, 2 * 40 * 64 * 4),)


def test_state_that_outlives_a_run_is_suspect() -> None:
    found = outcome(Cpu(softmax, keeps=("calls",)))
    assert isinstance(found, Suspect) and "variables: calls" in found.message


WRONG: dict[str, tuple[Body, str]] = {
    "zeros": (torch.zeros_like, "expected"),
    "the wrong axis": (lambda x: torch.softmax(x, dim=0), "wrong"),
    "the last row missing": (lambda x: softmax(x)[:-1], "never written"),
    "half precision": (lambda x: softmax(x.half()).float(), "times the error allowed"),
    "exact for small values only": (
        lambda x: softmax(x) if float(x.nan_to_num().abs().max()) < 40 else softmax(x.bfloat16()).float(),
        "wrong",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_numbers_are_a_mismatch(name: str) -> None:
    body, words = WRONG[name]
    found = outcome(Cpu(body))
    assert isinstance(found, Mismatch) and words in found.message


def test_a_wrong_result_at_the_declared_size_only_is_seen() -> None:
    found = outcome(Cpu(lambda x: softmax(x) if len(x) != 40 else torch.zeros_like(x)))
    assert isinstance(found, Mismatch) and found.case == "40x64"


def writes_into_its_input(x: Tensor) -> Tensor:
    result = softmax(x)
    x[0, 0] = 1.0
    return result


def writes_past_its_input(x: Tensor) -> Tensor:
    result = softmax(x)
    x.as_strided((1,), (1,), x.storage_offset() + x.numel()).fill_(0.0)
    return result


@pytest.mark.parametrize(
    ("body", "hazard"),
    [(writes_into_its_input, "input_written"), (writes_past_its_input, "out_of_bounds")],
)
def test_stray_writes_are_hazards(body: Body, hazard: str) -> None:
    found = outcome(Cpu(body))
    assert isinstance(found, Hazard) and found.hazard == hazard


def test_inputs_kept_from_an_earlier_kernel_are_whole_again() -> None:
    assert isinstance(outcome(Cpu(writes_into_its_input)), Hazard)
    assert outcome(Cpu(softmax)) == Passed()


def test_other_bits_in_a_second_run_are_labelled() -> None:
    turn = iter(range(1000))

    def unsteady(x: Tensor) -> Tensor:
        return softmax(x) * (1.0 + 1e-7 * (next(turn) % 2))

    assert outcome(Cpu(unsteady)) == Passed(deterministic=False)


ENDINGS: dict[str, tuple[BaseException, type[Outcome], str, bool]] = {
    "illegal address": (
        RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might"),
        Crashed,
        "illegal address",
        True,
    ),
    "misaligned": (RuntimeError("CUDA error: misaligned address"), Crashed, "misaligned", True),
    "assert": (RuntimeError("CUDA error: device-side assert triggered"), Crashed, "assert", True),
    "trap": (
        RuntimeError(
            "CUDA error: unspecified launch failure\nCompile with `TORCH_USE_CUDA_DSA` to enable "
            "device-side assertions."
        ),
        Crashed,
        "__trap()",
        True,
    ),
    "fault": (GpuFault("softmax_rows: error 718"), Crashed, "718", True),
    "registers": (GpuError("needs 255 registers", 4), LaunchFailed, "255 registers", False),
    "memory": (torch.OutOfMemoryError("CUDA out of memory. Tried to"), Crashed, "memory", False),
}  # type: ignore[valid-type]


@pytest.mark.parametrize("name", ENDINGS)
def test_errors_of_the_device_are_outcomes(name: str) -> None:
    error, kind, words, lost = ENDINGS[name]
    report, _ = judged(Cpu(softmax, ending=error))
    assert isinstance(report.outcome, kind)
    assert words in report.outcome.model_dump_json()
    assert report.lost is lost and not report.running


def test_a_launch_refused_names_the_plan_s_line() -> None:
    report, _ = judged(Cpu(softmax, ending=GpuError("too many registers", 4)))
    assert isinstance(report.outcome, LaunchFailed)
    assert report.outcome.diagnostics[0].line == 4


def test_an_endless_kernel_occupies_the_gpu() -> None:
    report, _ = judged(Cpu(softmax, ending=Endless()))
    assert isinstance(report.outcome, TimedOut) and report.lost and report.running


def test_the_machine_s_own_failure_claims_nothing() -> None:
    report, _ = judged(Cpu(softmax, ending=RuntimeError("CUDA error: uncorrectable ECC error encountered")))
    assert "cannot correct" in report.machine


def test_an_error_of_ours_is_not_blamed_on_the_kernel() -> None:
    with pytest.raises(ZeroDivisionError):
        judged(Cpu(softmax, ending=ZeroDivisionError()))


def test_the_reference_gets_addresses_that_every_library_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's attention faults on an H100 where its inputs begin inside of their storage."""
    places: list[int] = []

    def call(self: Reference, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        places.extend(tensor.data_ptr() % 16 for tensor in tensors.values())
        return own(self, tensors)

    own = Reference.call
    monkeypatch.setattr(Reference, "call", call)
    monkeypatch.setattr(gpu_trial, "_KNOWN", OrderedDict())
    _, said = judged(Cpu(softmax))
    assert "4x128 unaligned" in {one.check.case for one in said}
    assert places and not any(places)


def test_a_fault_of_the_reference_is_not_the_kernel_s(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(self: Expectations, planned: PlannedCheck) -> None:
        raise RuntimeError("CUDA error: misaligned address")

    monkeypatch.setattr(Expectations, "prepare", prepare)
    report, _ = judged(Cpu(softmax))
    assert isinstance(report.outcome, Passed) and report.lost
    assert "the reference failed at " in report.machine
    assert "before the kernel ran: it used an address" in report.machine


def test_an_output_laid_out_as_nobody_asked_is_a_mismatch() -> None:
    plan = trials()[0].plan
    output = plan.meta_of(plan.outputs[0])
    turned = output.model_copy(update={"strides": (1, output.shape[0])})
    steps = tuple(
        step.model_copy(update={"meta": turned}) if step.kind == "allocate" else step for step in plan.steps
    )
    odd = Trial(case=trials()[0].case, plan=plan.model_copy(update={"steps": steps}))
    request = CheckRequest(problem=SMALL, trials=(odd,), images=(), options=JudgeOptions())
    found = checked(request, lambda message: None, Cpu(softmax)).outcome
    assert isinstance(found, Mismatch) and "strides" in found.message


def test_what_lies_at_an_edge_is_counted_over_all_slices() -> None:
    def one(*crossed: Crossed) -> Difference:
        return Difference(max_abs=1.0, max_ratio=1.0, crossed=crossed[0] if crossed else None)

    found = merged(one(), one(Crossed(elements=2, of=50, distance=0.1)), slice(0, 5), 10)
    found = merged(found, one(Crossed(elements=1, of=50, distance=0.3)), slice(5, 10), 10)
    assert found.crossed == Crossed(elements=3, of=100, distance=0.3)
    assert "3 of 100 elements" in Check(case="c", inputs="i", seed=0, differences=(found,)).told


def test_a_rehearsal_runs_the_reference_on_every_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    own = Reference.call

    def call(self: Reference, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        rows.append(len(tensors["x"]))
        return own(self, tensors)

    monkeypatch.setattr(Reference, "call", call)
    known = Expectations(SMALL, "cpu")
    known._slice_elements = 16 * 64
    planned = next(
        one for one in checks_on_gpu(trials(), JudgeOptions(), False) if one.trial.case.origin == "declared"
    )
    prepared = known.prepare(planned)
    assert prepared is not None and not prepared.bounds
    rows.clear()
    known.rehearse(prepared)
    assert sum(rows) == 40 and len(rows) > 1
