"""Random modules: drawn texts run as drawn, some are judged, and a receipt tells of what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import random_modules
from module_maker import sample
from random_modules import Outcome, Tally, merged, outcome_of

from workbench.model import Draft
from workbench.referee.options import JudgeOptions

FEW = JudgeOptions(seed=1, kinds=("normal",))


def test_a_drawn_text_is_the_same_every_time_and_runs() -> None:
    for seed in range(40):
        drawn = sample(seed)
        assert drawn == sample(seed)
        names: dict[str, object] = {}
        exec(drawn.source, names)
        with torch.no_grad():
            model = names["Model"](*names["get_init_inputs"]()).eval()  # type: ignore[operator]
            made = model(*names["get_inputs"]())  # type: ignore[operator]
        assert all(one.numel() for one in (made if isinstance(made, tuple) else (made,)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 10])
def test_a_drawn_module_is_written_and_judged(seed: int) -> None:
    found = outcome_of(sample(seed), 1, FEW)
    assert not found.refused and not found.failures
    assert found.facts["kernels"] == 1 and found.facts["launches"]


@pytest.mark.slow
def test_a_wrong_kernel_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    write = random_modules.generate

    def wrong(*args: object) -> Draft:
        made = write(*args)  # type: ignore[arg-type]
        text = made.kernel.source.replace("return", "require(False, 'not today')\n    return", 1)
        return made.model_copy(update={"kernel": made.kernel.model_copy(update={"source": text})})

    monkeypatch.setattr(random_modules, "generate", wrong)
    (told,) = outcome_of(sample(2), 1, FEW).failures
    assert told.startswith("suspect: nothing was checked") and "not today" in told


def test_refusals_and_failures_are_counted_apart() -> None:
    tally = Tally(1, "digest")
    tally.add(Outcome(1, ("norm",), facts={"dtype": "float32", "kernels": 2, "launches": 3}))
    tally.add(Outcome(2, refused="'x' is of 3 axes"))
    tally.add(Outcome(3, refused="'y' is of 5 axes"))
    tally.add(Outcome(4, failures=["mismatch: all", "crashed: at 3"], facts={"kernels": 2}))
    run = tally.whole
    assert (run["modules"], run["judged"], run["refused"], run["kernels"]) == (4, 2, 2, 4)
    assert run["refusals"] == {"N is of N axes": 2}
    assert [one["seed"] for one in run["failures"]] == [4, 4]
    again = merged(merged({}, run), run)
    assert again["modules"] == 4 and again["failures"] == 2
