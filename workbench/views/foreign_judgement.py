"""A foreign solution's verdict for people and for machines; the word *foreign* is in both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workbench.foreign.values import ForeignEvaluation
from workbench.views.judgement import check_json
from workbench.views.numbers import verdict_message

Json = dict[str, Any]
NO_TIME = "no time is given: right or wrong is judged, the speed of foreign code is not measured yet"


def foreign_judgement(evaluation: ForeignEvaluation) -> Json:
    """``verdict``, ``reason`` and everything behind them. Finite numbers and words only."""
    report = evaluation.report
    return {
        "label": evaluation.label,
        "verdict": report.outcome.kind,
        "reason": verdict_message(report.outcome),
        "problem": evaluation.problem,
        "device": evaluation.device,
        "solution": evaluation.solution,
        "outcome": report.outcome.model_dump(mode="json"),
        "checks": [{"shape": check.case, **check_json(check)} for check in report.checks],
        "calls": report.calls,
        "provenance": report.provenance.model_dump(mode="json") if report.provenance else None,
        "notes": list(report.notes),
        "build": report.build,
        "sandbox": {fence.name: fence.holds for fence in report.fences},
        "replay": report.replay,
        "versions": dict(report.versions),
        "times": [],
        "seconds": dict(report.seconds),
    }


def foreign_lines(evaluation: ForeignEvaluation) -> Iterator[str]:
    """The same in a dozen lines."""
    report = evaluation.report
    shapes = dict.fromkeys(check.case for check in report.checks)
    for shape in shapes:
        checks = [check for check in report.checks if check.case == shape]
        yield f"{'covered' if checks[0].covered else 'not covered':<12}{shape:<20}{len(checks)} checks"
    if report.provenance and report.provenance.sentence:
        yield f"work        {report.provenance.sentence} (by its own process's profile)"
    if report.build:
        yield f"build       {report.build}"
    for note in report.notes:
        yield f"note        {note}"
    yield f"sandbox     {sandbox_line(evaluation)}"
    yield f"time        {NO_TIME}"
    reason = verdict_message(report.outcome)
    verdict = (
        f"{report.outcome.kind} ({evaluation.label}, on {evaluation.device}, {report.calls} calls compared)"
    )
    yield f"{verdict}: {reason}" if reason else verdict


def sandbox_line(evaluation: ForeignEvaluation) -> str:
    """Which fences hold and which do not, with the reason."""
    holds = [f.name for f in evaluation.report.fences if f.holds.startswith("yes")]
    lacks = [f"{f.name}: {f.holds}" for f in evaluation.report.fences if not f.holds.startswith("yes")]
    return "; ".join([f"{', '.join(holds)} hold" if holds else "nothing holds", *lacks])
