"""The table of factors: every shape against every baseline, nothing claimed that was not measured."""

from __future__ import annotations

import math

import pytest
import story

from workbench.model import BranchId, Evaluation
from workbench.views.phrases import factor_interval_text, share_text, time_interval_text
from workbench.views.speed import BASELINES, speed_json, timing_json
from workbench.views.steps import MOST, steps_json


def judged(branch: str = "b3") -> Evaluation:
    found = story.measured_tree().nodes[BranchId(branch)].evaluation
    assert found
    return found


def test_every_shape_stands_against_all_five_baselines() -> None:
    found = speed_json(judged())
    assert found
    assert tuple(found["baselines"]) == BASELINES
    assert [row["case"] for row in found["rows"]] == ["4096x32768", "64x131072"]
    assert all(len(row["cells"]) == 5 and all(row["cells"]) for row in found["rows"])


def test_the_words_say_who_is_faster() -> None:
    found = speed_json(judged())
    assert found
    words = {cell["name"]: cell["words"] for cell in found["rows"][0]["cells"]}
    assert words["eager"] == "● ours faster"
    assert words["compile max-autotune"] == "▼ ours slower"
    assert words["compile"] == "= the same"


def test_the_mean_is_geometric_and_needs_every_shape() -> None:
    evaluation = judged()
    found = speed_json(evaluation)
    assert found and found["means"][0] == "1.62x"
    short = evaluation.times[1].model_copy(update={"baselines": evaluation.times[1].baselines[1:]})
    partly = speed_json(evaluation.model_copy(update={"times": (evaluation.times[0], short)}))
    assert partly and partly["rows"][1]["cells"][0] is None
    assert partly["means"][:2] == ["–", "1.00x"]


def test_a_modelled_factor_has_no_interval() -> None:
    evaluation = story.tree().nodes[BranchId("b4")].evaluation
    assert evaluation
    found = speed_json(evaluation)
    assert found and found["source"] == "model"
    assert all(
        cell["interval"] == "" and cell["low"] is None for row in found["rows"] for cell in row["cells"]
    )
    assert speed_json(evaluation.model_copy(update={"times": ()})) is None


def test_a_doubt_and_a_missing_clock_are_told() -> None:
    whole, short = (timing_json(time) for time in judged().times)
    assert not whole["measured"]["suspicion"] and "disagree" in short["measured"]["suspicion"]
    facts = dict(whole["facts"])
    assert facts["clock not used"].startswith("events: ")
    assert facts["card while timed"] == "1755 to 1980 MHz, 612 W, 51 °C"
    assert facts["blocks left out"].startswith("2:")
    assert "not held against" not in facts


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(550.54, 551.42, "550.54 to 551.42 us"), (7.6, 7.92, "7.60 to 7.92 us"),
     (1739.0, 1751.0, "1.739 to 1.751 ms"), (480.0, 530.0, "480 to 530 us"), (3.0, 3.0, "3.000 to 3.000 us")],
)  # fmt: skip
def test_an_interval_tells_its_ends_apart(low: float, high: float, words: str) -> None:
    assert time_interval_text(low, high) == words


def test_factors_and_shares_in_words() -> None:
    assert factor_interval_text(1.2198, 1.2224) == "1.220x to 1.222x"
    assert factor_interval_text(23.15, 23.71) == "23.15x to 23.71x"
    assert [share_text(one) for one in (None, 0.0, 1e-5, 0.085, 1.0, 37.5, math.inf)] == [
        "–", "0", "under 0.1%", "8.5%", "100%", "37.5x", "NaN or infinity"]  # fmt: skip


def test_where_the_time_of_several_steps_goes() -> None:
    whole, _ = (timing_json(time) for time in judged().times)
    found = whole["steps"]
    assert found["words"] == (
        "2 steps take 450 us of the device: 1 library call takes 67% of it; the longest is aten.mm (line 7) "
        "with 67%; 50 us lie between the steps. Caches are cold before the first step alone."
    )
    words = str(found["drawing"])
    assert "softmax_rows" in words and "line 11" in words and "between the steps" in words


def test_of_many_steps_the_shortest_share_a_bar() -> None:
    one = judged().times[0]
    assert one.measured
    step = one.measured.steps[1]
    many = tuple(step.model_copy(update={"time_us": float(us), "line": us}) for us in range(1, 41))
    found = steps_json(one.model_copy(update={"measured": one.measured.model_copy(update={"steps": many})}))
    assert found
    words = str(found["drawing"])
    assert f"{40 - MOST} shorter steps" in words and "line 40" in words and "line 1'" not in words
    assert "library" not in found["words"]


def test_a_plan_of_one_step_and_a_modelled_time_tell_no_steps() -> None:
    one = judged().times[0]
    assert one.measured
    alone = one.measured.model_copy(update={"steps": ()})
    assert steps_json(one.model_copy(update={"measured": alone})) is None
    modelled = story.tree().nodes[BranchId("b4")].evaluation
    assert modelled and steps_json(modelled.times[0]) is None
