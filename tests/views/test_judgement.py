"""A verdict in lines: what was run, what it found, how long it takes and what the kernel printed."""

from __future__ import annotations

from workbench.model import CaseTime, Check, Difference, Evaluation, Hazard, Outcome, Passed, Printed
from workbench.views.judgement import judgement, judgement_lines
from workbench.views.printed import MOST_LINES, printed_json

CHECKS = tuple(
    Check(case=case, inputs="normal", seed=1, differences=(Difference(max_abs=1e-7, max_ratio=0.1),))
    for case in ("3x7", "8x16")
)


def evaluation(outcome: Outcome, **more: object) -> Evaluation:
    fields = {
        "kernel": "0" * 64,
        "device": "emulator",
        "target": "H100",
        "outcome": outcome,
        "checks": CHECKS,
    }
    return Evaluation.model_validate({**fields, **more})


def lines_of(found: Evaluation) -> list[str]:
    return judgement_lines(judgement(found), "cell")


def test_a_shape_with_a_hazard_has_not_passed_however_right_its_numbers() -> None:
    hazard = Hazard(hazard="race", case="8x16", line=7, message="line 7: somebody was early")
    assert lines_of(evaluation(hazard)) == [
        "passed      3x7                 1 check",
        "failed      8x16                1 check, the numbers right",
        "hazard, data race: line 7: somebody was early",
    ]


def test_long_names_of_shapes_keep_their_distance() -> None:
    checks = (CHECKS[0], CHECKS[1].model_copy(update={"case": "129x2x2x128 unaligned"}))
    assert lines_of(evaluation(Passed(), checks=checks))[:2] == [
        "passed      3x7                    1 check",
        "passed      129x2x2x128 unaligned  1 check",
    ]


def test_a_modelled_time_is_called_one() -> None:
    time = CaseTime(
        case="8x16", time_us=20.0, floor_us=10.0, bound="memory", source="model", baselines=(("eager", 30.0),)
    )
    *_, told, verdict = lines_of(evaluation(Passed(), times=(time,)))
    assert told == (
        "time at 8x16: 20 us by the model for H100, not measured, 1.50x against the fastest baseline, "
        "50% of the roofline"
    )
    assert verdict == "passed"


def test_what_was_printed_stands_under_the_verdict() -> None:
    printed = Printed(text="one\ntwo\n", calls=2, case="3x7", inputs="normal")
    assert lines_of(evaluation(Passed(), printed=printed))[-4:] == [
        "passed",
        "printf in the check at 3x7 on normal inputs, 2 calls:",
        "    one",
        "    two",
    ]


def test_of_much_that_was_printed_the_beginning_is_shown_and_said_to_be_it() -> None:
    text = "".join(f"{number}\n" for number in range(100))
    found = printed_json(Printed(text=text, calls=5000, case="3x7", inputs="normal"))
    assert found is not None and found["lines"] == [str(number) for number in range(MOST_LINES)]
    assert found["words"].endswith("the first 20 lines of 5000 calls")
    cut = printed_json(Printed(text="a" * 300, calls=1, case="3x7", inputs="normal"))
    assert cut is not None and cut["lines"] == ["a" * 200] and "the first 1 line of 1 call" in cut["words"]
