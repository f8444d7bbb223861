"""What a judgement on a GPU makes of the process that ends, with the CPU in the GPU's place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_gpu_trial import RIGHT, SMALL, Cpu, softmax

from workbench.errors import DeviceError
from workbench.model import H100, Crashed, Difference, Kernel, Outcome, Passed
from workbench.referee import gpu_judge
from workbench.referee.gpu_expectation import Expectations, Prepared
from workbench.referee.gpu_judge import GpuJudgement, GpuOptions, Loss, Payload
from workbench.referee.gpu_protocol import CheckRequest
from workbench.referee.gpu_trial import checked
from workbench.referee.matrix import PlannedCheck
from workbench.referee.options import JudgeOptions
from workbench.workers import Result, Returned

ASSERTED = "CUDA error: device-side assert triggered"
KERNELS_RUN: list[str] = []
"""Cases that a kernel has run at in the process that a lane pretends to be."""


class Lane:
    """Answers in this process; remembers what it was asked, and which processes it would have lost."""

    def __init__(self) -> None:
        self.asked: list[CheckRequest] = []
        self.losses: list[Loss] = []
        self.fresh: list[bool] = []

    def ask(
        self,
        payload: Payload,
        wall_s: float,
        loss: Callable[[Result], Loss],
        on_message: Callable[[bytes], None] | None = None,
        quiet: bool = False,
        fresh: bool = False,
    ) -> Result:
        self.asked.append(CheckRequest.model_validate_json(payload() if callable(payload) else payload))
        self.fresh.append(fresh)
        KERNELS_RUN.clear()  # a process that was lost is replaced
        report = checked(self.asked[-1], on_message or (lambda message: None), Cpu(softmax))
        answer = Returned(payload=report.model_dump_json().encode())
        self.losses.append(loss(answer))
        return answer


def refusing(monkeypatch: pytest.MonkeyPatch, *kinds: str, behind_a_kernel: bool = False) -> None:
    """The reference breaks the context on these kinds of inputs; or only once a kernel has run."""
    own = Expectations.prepare

    def prepare(self: Expectations, planned: PlannedCheck) -> Prepared | None:
        if planned.inputs in kinds and (KERNELS_RUN or not behind_a_kernel):
            raise RuntimeError(ASSERTED)
        prepared = own(self, planned)
        KERNELS_RUN.append(planned.trial.case.label)  # what has been prepared is run next
        return prepared

    monkeypatch.setattr(Expectations, "prepare", prepare)
    monkeypatch.setattr(gpu_judge, "_REFUSED", {})


def judged(lane: Lane) -> tuple[Outcome, GpuJudgement]:
    judgement = GpuJudgement(SMALL, Kernel(source=RIGHT), H100, JudgeOptions(), lambda stage: None)
    judgement.lane, judgement.gpu_options = lane, GpuOptions(timing=False, hazards=False)
    assert judgement._planned() is None
    return judgement._checked(), judgement


def test_where_the_reference_breaks_the_context_others_are_checked_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusing(monkeypatch, "heavy-tailed")
    lane = Lane()
    outcome, judgement = judged(lane)
    cases = len({case for case, _ in lane.asked[-1].refused})
    assert outcome == Passed() and lane.losses == [*["lost", "lost"] * cases, "none"]
    kinds = {done.check.inputs for done in judgement.done}
    assert "heavy-tailed" not in kinds and {"normal", "offset", "scale 64"} <= kinds
    assert {inputs for _, inputs in lane.asked[-1].refused} == {"heavy-tailed"}
    assert {(check.inputs, check.covered) for check in judgement.left_out} == {("heavy-tailed", False)}
    again, _ = judged(later := Lane())
    assert again == Passed() and later.losses == ["none"]  # the next kernel loses nothing


def test_what_another_kernel_has_been_told_meanwhile_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On an H100 six right kernels of eight, judged side by side, were said to write beside their memory."""
    refusing(monkeypatch, "heavy-tailed")
    judged(Lane())
    known = gpu_judge._REFUSED.pop(SMALL.digest)

    lane, asked = Lane(), Lane.ask

    def beside(*given: Any, **named: Any) -> Result:
        answer = asked(*given, **named)
        gpu_judge._REFUSED[SMALL.digest] = known
        return answer

    monkeypatch.setattr(Lane, "ask", beside)
    outcome, judgement = judged(lane)
    assert outcome == Passed() and lane.losses == ["lost", "none"]
    assert [one.doubted for one in lane.asked] == [None, None]
    assert {check.inputs for check in judgement.left_out} == {"heavy-tailed"}


def test_ordinary_inputs_of_declared_sizes_are_never_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, "normal")
    with pytest.raises(DeviceError, match="before the kernel ran: an assert"):
        judged(lane := Lane())
    assert set(lane.losses) == {"lost"} and len(lane.losses) <= 2 * gpu_judge.MOST_REFUSED


def test_a_reference_that_fails_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, *(kind for kind in JudgeOptions().kinds if kind != "normal"))
    with pytest.raises(DeviceError, match="the reference failed"):
        judged(lane := Lane())
    assert lane.losses == ["lost"] * 2 * gpu_judge.MOST_REFUSED
    assert len(set(lane.asked[-1].refused)) == gpu_judge.MOST_REFUSED - 1


@pytest.mark.parametrize("kinds", [("heavy-tailed",), ("heavy-tailed", "offset")])
def test_what_breaks_only_behind_the_kernel_is_the_kernel_s_fault(
    monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, ...]
) -> None:
    """No check is left out then, neither for this kernel nor for the next."""
    refusing(monkeypatch, *kinds, behind_a_kernel=True)
    outcome, judgement = judged(lane := Lane())
    assert isinstance(outcome, Crashed) and "memory that is not its own" in outcome.message
    assert lane.asked[0].doubted is None and lane.asked[1].doubted is not None
    assert lane.fresh == [False, True]
    assert lane.asked[1].doubted[1] in kinds
    assert judgement.left_out == () and gpu_judge._REFUSED == {}


@pytest.mark.parametrize("by_the_kernel", [False, True])
def test_a_reference_that_runs_behind_the_kernel_is_tried_before_it_when_in_doubt(
    monkeypatch: pytest.MonkeyPatch, by_the_kernel: bool
) -> None:
    """Large cases are held to the reference slice by slice, when a kernel has run."""
    refusing(monkeypatch)
    asked: list[str] = []
    prepare, differences = Expectations.prepare, Expectations.differences

    def preparing(self: Expectations, planned: PlannedCheck) -> Prepared | None:
        asked.append(planned.inputs)
        return prepare(self, planned)

    def rehearsed(self: Expectations, prepared: Prepared) -> None:
        if asked[-1] == "heavy-tailed" and not by_the_kernel:
            raise RuntimeError(ASSERTED)

    def compared(self: Expectations, prepared: Prepared, outputs: tuple[Any, ...]) -> tuple[Difference, ...]:
        if asked[-1] == "heavy-tailed":
            raise RuntimeError(ASSERTED)
        return differences(self, prepared, outputs)

    monkeypatch.setattr(Expectations, "prepare", preparing)
    monkeypatch.setattr(Expectations, "rehearse", rehearsed)
    monkeypatch.setattr(Expectations, "differences", compared)
    outcome, judgement = judged(lane := Lane())
    assert lane.asked[0].doubted is None and lane.asked[1].doubted is not None and lane.fresh[1]
    if by_the_kernel:
        assert isinstance(outcome, Crashed) and judgement.left_out == ()
    else:
        assert outcome == Passed()
        assert {check.inputs for check in judgement.left_out} == {"heavy-tailed"}
