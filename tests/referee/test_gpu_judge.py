"""What a judgement on a GPU makes of the process that ends, with the CPU in the GPU's place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_gpu_trial import RIGHT, SMALL, Cpu, softmax

from workbench.errors import DeviceError
from workbench.model import H100, Kernel, Outcome, Passed
from workbench.referee import gpu_judge
from workbench.referee.gpu_expectation import Expectations, Prepared
from workbench.referee.gpu_judge import GpuJudgement, GpuOptions, Loss
from workbench.referee.gpu_protocol import CheckRequest
from workbench.referee.gpu_trial import checked
from workbench.referee.matrix import PlannedCheck
from workbench.referee.options import JudgeOptions
from workbench.workers import Result, Returned

ASSERTED = "CUDA error: device-side assert triggered"


class Lane:
    """Answers in this process; remembers what it was asked, and which processes it would have lost."""

    def __init__(self) -> None:
        self.asked: list[CheckRequest] = []
        self.losses: list[Loss] = []

    def ask(
        self,
        payload: bytes,
        wall_s: float,
        loss: Callable[[Result], Loss],
        on_message: Callable[[bytes], None] | None = None,
        quiet: bool = False,
    ) -> Result:
        self.asked.append(CheckRequest.model_validate_json(payload))
        report = checked(self.asked[-1], on_message or (lambda message: None), Cpu(softmax))
        answer = Returned(payload=report.model_dump_json().encode())
        self.losses.append(loss(answer))
        return answer


def refusing(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    """The reference breaks the context on these kinds of inputs."""
    own = Expectations.prepare

    def prepare(self: Expectations, planned: PlannedCheck) -> Prepared | None:
        if planned.inputs in kinds:
            raise RuntimeError(ASSERTED)
        return own(self, planned)

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
    assert outcome == Passed() and lane.losses == ["lost", "lost", "none"]
    kinds = {done.check.inputs for done in judgement.done}
    assert "heavy-tailed" not in kinds and {"normal", "offset", "scale 64"} <= kinds
    assert {inputs for _, inputs in lane.asked[-1].refused} == {"heavy-tailed"}
    assert {(check.inputs, check.covered) for check in judgement.left_out} == {("heavy-tailed", False)}
    again, _ = judged(later := Lane())
    assert again == Passed() and later.losses == ["none"]  # the next kernel loses nothing


def test_ordinary_inputs_are_never_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, "normal")
    with pytest.raises(DeviceError, match="before the kernel ran: an assert"):
        judged(lane := Lane())
    assert lane.losses == ["lost"]


def test_a_reference_that_fails_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, *(kind for kind in JudgeOptions().kinds if kind != "normal"))
    with pytest.raises(DeviceError, match="the reference failed"):
        judged(lane := Lane())
    assert lane.losses == ["lost"] * gpu_judge.MOST_REFUSED
    assert len(set(lane.asked[-1].refused)) == gpu_judge.MOST_REFUSED - 1
