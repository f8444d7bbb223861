"""A small share of benchmarks/fuzz_judge.py: no text crashes the plan's interpreter or the judge."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cheat_files import all_files

from workbench.errors import PlanError
from workbench.model import H100
from workbench.plan.facts import facts
from workbench.plan.parse import parse
from workbench.referee.planning import plan_cases, situations

ROOT = Path(__file__).parents[2]
PLANS, JUDGED = 800, 12


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_judge", ROOT / "benchmarks" / "fuzz_judge.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["fuzz_judge"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_any_text_is_planned_or_refused(fuzz: ModuleType) -> None:
    files = all_files()
    planned = 0
    for seed in range(10**6, 10**6 + PLANS):
        one = fuzz.made(seed, files)
        try:
            program = parse(one.text)
        except PlanError as error:
            assert error.diagnostics
            continue
        if program.uses_library:
            continue  # asks a worker; the judge below goes that way too
        for case in plan_cases(program, situations(one.problem), H100):
            assert (case.plan is None) == bool(case.diagnostics)
            if case.plan is not None:
                facts(case.plan, case.case.label)
                planned += 1
    assert planned > PLANS


def test_any_text_is_judged(fuzz: ModuleType) -> None:
    tally = fuzz.run(range(2 * 10**6, 2 * 10**6 + JUDGED), 2, lambda tally: None)
    assert tally.count == JUDGED
    assert not tally.harm
    assert len(tally.verdicts) >= 3


def test_an_input_is_the_same_every_time(fuzz: ModuleType) -> None:
    files = all_files()
    assert [fuzz.made(seed, files).text for seed in range(50)] == [
        fuzz.made(seed, files).text for seed in range(50)
    ]


def test_harm_is_seen(fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("the judge itself")

    monkeypatch.setattr(fuzz, "judge", broken)
    verdict, harm, _ = fuzz.tried(fuzz.made(1, all_files()))
    assert verdict == "exception" and "the judge itself" in harm


def test_the_receipt_tells_of_no_harm() -> None:
    receipt = json.loads((ROOT / "benchmarks" / "receipts" / "fuzz-judge.json").read_text())
    assert receipt["crashes_or_hangs_of_the_trusted_side"] == 0
    assert receipt["inputs"] == sum(receipt["verdicts"].values())
