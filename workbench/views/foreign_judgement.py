"""A foreign solution's verdict for people and for machines; the word *foreign* is in both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workbench.foreign.values import ForeignEvaluation, ForeignTime
from workbench.views.judgement import check_json
from workbench.views.numbers import verdict_message
from workbench.views.phrases import plural

Json = dict[str, Any]
NO_TIME = "no time is given: foreign code is timed on a GPU only, and once its numbers are right"


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
        "times": [time.model_dump(mode="json") for time in report.times],
        "seconds": dict(report.seconds),
    }


def foreign_lines(evaluation: ForeignEvaluation) -> Iterator[str]:
    """The same in a dozen lines."""
    report = evaluation.report
    shapes = dict.fromkeys(check.case for check in report.checks)
    for shape in shapes:
        checks = [check for check in report.checks if check.case == shape]
        covered = "covered" if checks[0].covered else "not covered"
        yield f"{covered:<12}{shape:<20}{plural(len(checks), 'check')}"
    if report.provenance and report.provenance.sentence:
        yield f"work        {report.provenance.sentence} (by its own process's profile)"
    if report.build:
        yield f"build       {report.build}"
    for note in report.notes:
        yield f"note        {note}"
    seen = report.provenance
    if evaluation.device == "cpu" and seen and seen.claims and not (seen.own_calls or seen.own_kernels):
        yield "note        without a GPU no kernel of it can run: judge it where there is one"
    yield f"sandbox     {sandbox_line(evaluation)}"
    for line in map(time_line, report.times):
        yield f"time        {line}"
    if not report.times:
        yield f"time        {NO_TIME}"
    reason = verdict_message(report.outcome)
    verdict = (
        f"{report.outcome.kind} ({evaluation.label}, on {evaluation.device}, {report.calls} calls compared)"
    )
    yield f"{verdict}: {reason}" if reason else verdict


def time_line(time: ForeignTime) -> str:
    """One case: the time, the baselines, the clock, and what was checked from outside."""
    rivals = [f"{r.ratio:.2f}x {r.name} ({r.low:.2f} to {r.high:.2f}, {r.verdict})" for r in time.rivals]
    clock = "CUDA events in its own process" if time.clock == "events" else "its own process's clock"
    late = f", {time.late_us:.0f} us of it on other streams" if time.late_us else ""
    wall = f", {time.wall_us:.1f} us by the clock outside" if time.wall_us is not None else ""
    held = "; ".join([*rivals, *(f"no {name}: {why}" for name, why in time.missing)])
    return (
        f"{time.case}: {time.time_us:.1f} us ({time.low_us:.1f} to {time.high_us:.1f}{late}; {clock}{wall}; "
        f"{time.checked} of {time.samples} timed calls compared); {held}"
    )


def sandbox_line(evaluation: ForeignEvaluation) -> str:
    """Which fences hold and which do not, with the reason."""
    holds = [f.name for f in evaluation.report.fences if f.holds.startswith("yes")]
    lacks = [f"{f.name}: {f.holds}" for f in evaluation.report.fences if not f.holds.startswith("yes")]
    return "; ".join([f"{', '.join(holds)} hold" if holds else "nothing holds", *lacks])
