"""Every cheat is caught and every honest solution passes: the foreign lane's suite, on CPU tensors."""

from __future__ import annotations

import pytest
import suite

from workbench.foreign.judge import judge_solution
from workbench.foreign.values import ForeignOptions
from workbench.model import Problem

ENTRIES = suite.entries()


@pytest.fixture(scope="module")
def problems() -> dict[str, Problem]:
    """Opened once."""
    return suite.problems(ENTRIES)


@pytest.fixture(scope="module")
def judged(problems: dict[str, Problem]) -> dict[str, suite.Judged]:
    """All verdicts, a few solutions at a time from one warm server."""
    return {found.entry.name: found for found in suite.judged(ENTRIES, problems)}


@pytest.mark.parametrize("name", [entry.name for entry in ENTRIES])
def test_verdict(judged: dict[str, suite.Judged], name: str) -> None:
    found = judged[name]
    assert found.as_it_must, f"{found.verdict}: {found.evaluation.report.outcome}"


def test_counts(judged: dict[str, suite.Judged]) -> None:
    cheats = [found for found in judged.values() if found.entry.path.parent.name == "cheats"]
    honest = [found for found in judged.values() if found.entry.path.parent.name == "honest"]
    assert len(cheats) >= 50 and len(honest) >= 12
    assert not [found.entry.name for found in cheats if found.verdict == "passed"]
    assert not [found.entry.name for found in honest if found.verdict != "passed"]


def test_what_is_told_of_an_honest_one(judged: dict[str, suite.Judged]) -> None:
    report = judged["honest/plain_torch"].evaluation.report
    assert report.calls > suite.CALLS and report.provenance is not None
    assert any("softmax" in share.name and share.kind == "library" for share in report.provenance.shares)
    assert judged["honest/custom_op"].evaluation.report.provenance.own_calls == ("solution::softmax",)
    only = judged["honest/declared_sizes_only"].evaluation.report.outcome
    assert "5x127" in only.not_covered and "32x96" not in only.not_covered
    assert "an output is not contiguous" in judged["honest/padded_output"].evaluation.report.notes


def test_an_extension_takes_the_quickest_rung(judged: dict[str, suite.Judged]) -> None:
    report = judged["honest/load_inline_cpp"].evaluation.report
    assert report.build == "thin header" and report.provenance is not None
    assert report.provenance.own_calls == ("row_softmax.row_softmax",)


def test_a_verdict_can_be_repeated(judged: dict[str, suite.Judged], problems: dict[str, Problem]) -> None:
    zeros = judged["cheats/zeros"]
    first = zeros.evaluation.report
    options = ForeignOptions(replay=first.replay)
    again = judge_solution(problems[zeros.entry.problem], zeros.entry.path.read_text(), options).report
    assert (again.outcome, again.checks) == (first.outcome, first.checks)
