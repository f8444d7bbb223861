"""A receipt proves itself, and a receipt that was touched does not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from softmax_problem import PROBLEM, RIGHT, case
from typer.testing import CliRunner

from workbench.cli import app
from workbench.compile import load_cubin
from workbench.compile.options import nvrtc_version
from workbench.errors import UsageError
from workbench.live import replay as live
from workbench.model import (
    H100,
    CaseTime,
    CompileFailed,
    Evaluation,
    Kernel,
    Measured,
    Mismatch,
    Passed,
    Problem,
    TimedOut,
)
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.plan.steps import Allocate, Launch, Plan
from workbench.referee import replay
from workbench.referee.clock.conditions import Blind
from workbench.referee.clock.options import INTERACTIVE
from workbench.referee.clock.samples import KERNEL, RawTimes, Track
from workbench.referee.clock.simulated import SimulatedSampler
from workbench.referee.clock.statistics import median_interval, relative_spread
from workbench.referee.clock.taking import Watch, take_case
from workbench.referee.clock.verdicts import chained_rivals, rivals_of
from workbench.referee.options import JudgeOptions
from workbench.referee.receipts import (
    SEED_FACT,
    CaseReceipt,
    Machine,
    Receipt,
    cubin_of,
    read_receipt,
    receipt_of,
    versions,
    wanted_kernels,
    write_receipt,
)
from workbench.referee.replay import Finding, claims, hashes, plans, rechecked, remeasured, state_of

OPTIONS = INTERACTIVE.model_copy(update={"resamples": 200})
SMALL = PROBLEM.model_copy(update={"cases": (case(16, 16384, declared=True),)})
KERNEL_TEXT = Kernel(source=RIGHT)
BASELINES = RawTimes(
    case="16x16384",
    tracks=(
        Track(name="eager", blocks=((12.0, 12.2), (12.1, 12.0)) * 6),
        Track(name="graph of eager", blocks=((11.0, 11.1), (11.2, 11.0)) * 6),
    ),
)


def measured(raw: RawTimes, baselines: RawTimes | None = None) -> Measured:
    """The claims of raw samples, as the clock makes them."""
    samples = raw.track(KERNEL).samples
    interval = median_interval(raw.track(KERNEL).medians, OPTIONS.resamples, OPTIONS.seed)
    rivals = rivals_of(raw, OPTIONS)
    return Measured(
        clock="cupti",
        low_us=interval.low,
        high_us=interval.high,
        samples=len(samples),
        relative_stdev=relative_spread(samples),
        rivals=rivals + (chained_rivals(raw, baselines, OPTIONS) if baselines else ()),
    )


def sampled(kernel_us: float = 10.0, eager_us: float = 12.0, seed: int = 0) -> RawTimes:
    sampler = SimulatedSampler({KERNEL: kernel_us, "eager": eager_us}, seed=seed)
    return take_case(sampler, "16x16384", (KERNEL, "eager"), OPTIONS, Watch(sampler.now, Blind())).raw


@pytest.fixture(scope="module")
def receipt() -> Receipt:
    plan = interpret(parse(RIGHT), SMALL.metas(SMALL.cases[0]), H100)
    cubins = []
    for consts, kernels in wanted_kernels(plan).items():
        answer = load_cubin(RIGHT, consts, kernels)
        assert not isinstance(answer, CompileFailed)
        cubins.append(cubin_of(consts, kernels, answer[0]))
    raw = sampled()
    one = CaseReceipt(
        case="16x16384",
        sizes=SMALL.cases[0].sizes,
        plan=plan.digest,
        cubins=tuple(cubins),
        input_seed=4711,
        time_us=sorted(raw.track(KERNEL).medians)[len(raw.track(KERNEL).medians) // 2],
        measured=measured(raw, BASELINES),
        raw=raw,
        baselines=BASELINES,
    )
    one = one.model_copy(update={"time_us": _median(raw)})
    machine = Machine(card=H100.name, driver="13.0", versions=versions())
    return receipt_of(SMALL, KERNEL_TEXT, H100, machine, [one], OPTIONS)


def _median(raw: RawTimes) -> float:
    medians = sorted(raw.track(KERNEL).medians)
    half = len(medians) // 2
    return medians[half] if len(medians) % 2 else (medians[half - 1] + medians[half]) / 2


def changed(receipt: Receipt, **fields: Any) -> Receipt:
    one = receipt.cases[0].model_copy(update=fields)
    return receipt.model_copy(update={"cases": (one,)})


def states(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.state for finding in findings]


# ------------------------------------------------------------------------------------ the file


def test_a_receipt_comes_back_from_its_file(receipt: Receipt, tmp_path: Path) -> None:
    path = write_receipt(receipt, tmp_path / "receipts")
    assert read_receipt(path) == receipt
    assert receipt.command == f"workbench replay-receipt {path.name}"
    assert path.name.startswith(receipt.kernel_digest[:12] + "-nvidia-h100-80gb-hbm3-")
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_other_files_are_no_receipts(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"format": "something else"}')
    with pytest.raises(UsageError, match=r"a\.json is no receipt of a measurement: format"):
        read_receipt(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("nonsense")
    with pytest.raises(UsageError, match=r"b\.json is no receipt of a measurement: Invalid JSON"):
        read_receipt(tmp_path / "b.json")
    with pytest.raises(UsageError, match="cannot read"):
        read_receipt(tmp_path / "none.json")


# ------------------------------------------------------------------------------------ checks without a GPU


def test_an_honest_receipt_holds(receipt: Receipt) -> None:
    findings = rechecked(receipt)
    assert states(findings) == ["agrees"] * 6, findings
    told = {finding.what: finding.detail for finding in findings}
    assert "against graph of eager" in told["claims at 16x16384"]
    assert told["numbers, on the emulator"].endswith("checks passed")


def test_the_check_that_was_this_kernels_alone_is_repeated(
    receipt: Receipt, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def judged(problem: Problem, kernel: Kernel, target: Any, options: JudgeOptions, tell: Any) -> Evaluation:
        asked.append((options.seed, options.own_seed))
        return evaluation()

    monkeypatch.setattr(replay, "judge", judged)
    found = replay.rejudged(receipt.model_copy(update={"seed": 12, "own_seed": 77}))
    assert asked == [(12, 77)] and found.detail.endswith("that on its own seed among them")


def test_an_emulator_that_is_too_slow_finds_nothing(
    receipt: Receipt, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = evaluation().model_copy(update={"outcome": TimedOut(case="16x16384", limit_s=60.0)})
    monkeypatch.setattr(replay, "judge", lambda *given: late)
    assert replay.rejudged(receipt).state == "not checked"
    wrong = evaluation().model_copy(update={"outcome": Mismatch(case="16x16384", message="off")})
    monkeypatch.setattr(replay, "judge", lambda *given: wrong)
    assert replay.rejudged(receipt).state == "differs"


def test_a_touched_text_no_longer_fits_its_hash(receipt: Receipt) -> None:
    other = receipt.model_copy(update={"kernel": Kernel(source=RIGHT.replace("block=128", "block=64"))})
    assert states(hashes(other)) == ["agrees", "differs"]
    assert plans(other)[0].state == "differs"
    nonsense = receipt.model_copy(update={"kernel": Kernel(source="no plan")})
    assert plans(nonsense)[0].state == "differs"


MEASURED = Path(__file__).parents[2] / "benchmarks" / "receipts" / "measured"


@pytest.mark.parametrize(
    "name",
    [
        "939ec16b7c8c-nvidia-h100-80gb-hbm3-20261121T181615",  # before launches could be cooperative
        "b65e71de1064-nvidia-h100-80gb-hbm3-20261122T021000",  # all fields, that one too
    ],
)
def test_receipts_of_before_a_format_grew_still_hold_and_another_plan_does_not(name: str) -> None:
    old = read_receipt(MEASURED / f"{name}.json")
    cases = [case for case in old.problem.cases if case.label == old.cases[0].case]
    one = old.model_copy(update={"cases": old.cases[:1]})
    assert [found.state for found in (*hashes(one), *plans(one)[:1])] == ["agrees"] * 3
    plan = interpret(parse(old.kernel.source), old.problem.metas(cases[0]), old.target)
    *before, launch = plan.steps
    assert plan.digest not in plan.former_digests
    for change in ({"grid": (7, 1, 1)}, {"cooperative": True}, {"shared_bytes": 16}):
        other = plan.model_copy(update={"steps": (*before, launch.model_copy(update=change))})
        for digest in (other.digest, *other.former_digests):
            touched = old.model_copy(update={"cases": (old.cases[0].model_copy(update={"plan": digest}),)})
            assert plans(touched)[0].state == "differs", change


def test_a_plan_keeps_its_name_when_a_step_gets_another_field() -> None:
    class Longer(Launch):
        priority: int = 0

    class Later(Plan):
        steps: tuple[Allocate | Longer, ...]

    plan = interpret(parse(RIGHT), SMALL.metas(SMALL.cases[0]), H100)
    later = Later.model_validate_json(plan.model_dump_json())
    assert later.digest == plan.digest
    *before, launch = later.steps
    urgent = launch.model_copy(update={"priority": 1})
    assert later.model_copy(update={"steps": (*before, urgent)}).digest != plan.digest


def test_a_kernel_with_a_new_field_is_known_by_what_its_file_gives(receipt: Receipt) -> None:
    class Longer(Kernel):
        made_by: str = "nobody"

    class Later(Receipt):
        kernel: Longer

    later = Later.model_validate_json(receipt.model_dump_json())
    assert later.kernel.digest != receipt.kernel_digest
    assert states(hashes(later)) == ["agrees", "agrees"]
    touched = later.model_copy(update={"kernel": Longer(source=RIGHT + " ")})
    assert states(hashes(touched)) == ["agrees", "differs"]


def test_another_cubin_is_seen_and_another_compiler_is_said(receipt: Receipt) -> None:
    cubin = receipt.cases[0].cubins[0].model_copy(update={"sha256": "0" * 64})
    assert states(plans(changed(receipt, cubins=(cubin,)))) == ["agrees", "differs"]
    old = receipt.machine.model_copy(update={"versions": (("nvrtc", "12.9.1"),)})
    finding = plans(receipt.model_copy(update={"machine": old}))[1]
    assert finding.state == "not checked"
    assert finding.detail == f"NVRTC is {nvrtc_version()} here and was 12.9.1"


def test_names_that_a_process_gave_are_no_difference_but_only_in_receipts_of_then(
    receipt: Receipt, monkeypatch: pytest.MonkeyPatch
) -> None:
    cubin = receipt.cases[0].cubins[0].model_copy(update={"sha256": "0" * 64})
    touched = changed(receipt, cubins=(cubin,))
    monkeypatch.setattr(replay, "load_cubin", lambda *given: (b"x_INTERNAL_y", {}))
    assert plans(touched)[1].state == "differs"
    versions_then = tuple(fact for fact in receipt.machine.versions if fact != SEED_FACT)
    then = receipt.machine.model_copy(update={"versions": versions_then})
    assert plans(touched.model_copy(update={"machine": then}))[1].state == "not checked"


def test_a_claim_that_the_samples_do_not_give_is_seen(receipt: Receipt) -> None:
    found = receipt.cases[0].measured
    first = found.rivals[0]
    boasts = [
        {"rivals": (first.model_copy(update={"low": first.low * 1.01}), *found.rivals[1:])},
        {"rivals": (first.model_copy(update={"verdict": "SAME"}), *found.rivals[1:])},
        {"rivals": found.rivals[1:]},
        {"low_us": found.low_us * 0.9},
        {"suspicion": "none of it"},
    ]
    for boast in boasts:
        touched = changed(receipt, measured=found.model_copy(update=boast))
        assert states(claims(touched)) == ["differs"], boast
    assert states(claims(changed(receipt, time_us=1.0))) == ["differs"]
    faster = receipt.cases[0].raw.track(KERNEL)
    faster = faster.model_copy(update={"blocks": tuple((a * 0.9, b * 0.9) for a, b in faster.blocks)})
    raw = receipt.cases[0].raw.model_copy(update={"tracks": (faster, *receipt.cases[0].raw.rivals)})
    assert states(claims(changed(receipt, raw=raw))) == ["differs"]


# ------------------------------------------------------------------------------------ a new measurement


def evaluation(kernel_us: float = 10.0, card: str = H100.name, seed: int = 5) -> Evaluation:
    raw = sampled(kernel_us, seed=seed)
    time = CaseTime(
        case="16x16384", source="measured", time_us=kernel_us, floor_us=1.0, measured=measured(raw)
    )
    return Evaluation(kernel=KERNEL_TEXT.digest, device="cuda", target=card, outcome=Passed(), times=(time,))


def test_a_new_measurement_agrees_or_does_not(receipt: Receipt) -> None:
    again = remeasured(receipt, evaluation())
    assert states(again) == ["agrees"]
    assert again[0].detail.startswith("10.0 us now, 10.0 us then; 1.2")
    assert states(remeasured(receipt, evaluation(kernel_us=11.0))) == ["differs"]
    other = remeasured(receipt, evaluation(kernel_us=11.0, card="NVIDIA H200"))
    assert states(other) == ["not checked"]
    assert "on another card" in other[0].detail
    wrong = evaluation().model_copy(update={"outcome": Mismatch(case="16x16384", message="off"), "times": ()})
    assert states(remeasured(receipt, wrong)) == ["differs"]


def test_without_a_gpu_the_rest_is_checked_and_it_is_said(
    receipt: Receipt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(name: str) -> Any:
        raise UsageError("no NVIDIA GPU is attached")

    monkeypatch.setattr(live, "open_device", none)
    path = write_receipt(receipt, tmp_path)
    result = CliRunner().invoke(app, ["replay-receipt", str(path), "--json", str(tmp_path / "found.json")])
    assert result.exit_code == 0, result.output
    assert "not checked  new measurement             no NVIDIA GPU is attached" in result.output
    assert result.output.endswith("the receipt holds\n")
    assert '"state": "agrees"' in (tmp_path / "found.json").read_text()
    touched = write_receipt(changed(receipt, time_us=1.0), tmp_path / "touched")
    result = CliRunner().invoke(app, ["replay-receipt", str(touched)])
    assert result.exit_code == 1
    assert "the receipt does not hold" in result.output


def test_with_a_gpu_it_is_measured_again(receipt: Receipt, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, seeds = [], []
    receipt = receipt.model_copy(update={"seed": 12, "own_seed": 77})

    class Gpu:
        def repeat_seeds(self, seed: int, own_seed: int | None) -> None:
            seeds.append((seed, own_seed))

        async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: Any) -> Evaluation:
            assert (problem, kernel) == (receipt.problem, receipt.kernel)
            await asyncio.sleep(0)
            return evaluation()

        async def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr(live, "open_device", lambda name: Gpu())
    monkeypatch.setattr(live, "rechecked", lambda receipt: ())
    assert [finding.state for finding in live.replay(receipt)] == ["agrees"]
    assert closed == [True] and seeds == [(12, 77)]
    assert [f.state for f in live.replay(receipt, "emulator")] == ["not checked"]


def test_the_whole_is_as_good_as_its_worst_part() -> None:
    def of(*found: Any) -> str:
        return state_of([Finding(what="x", state=state) for state in found])

    assert of("agrees", "not checked") == "agrees"
    assert of("agrees", "differs") == "differs"
    assert of("not checked") == "not checked"
