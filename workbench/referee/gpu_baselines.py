"""Baselines that take long to be had, timed once a problem and card and remembered for every kernel.

The parent side: what is remembered, what is still to be timed, one request to the process with the GPU for
each case. The record is a receipt of its own: raw samples, clock, conditions. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from workbench.errors import DeviceError
from workbench.model import Case, Problem
from workbench.referee.clock.options import ClockOptions
from workbench.referee.clock.samples import RawTimes
from workbench.referee.clock.store import BaselineKey, BaselineRecord, remember, remembered
from workbench.referee.gpu_protocol import BaselineReport, BaselineRequest, Card
from workbench.workers import Result, Returned

AT_ONCE = ("eager", "compile")
"""Baselines a person waits for: timed in turns with every kernel."""
LATER = ("compile max-autotune", "graph of eager", "graph of compile")
"""Baselines that follow: timed in turns with the first ones, and held against a kernel through those."""
NOT_YET = "not timed yet"
OPTIONS = ClockOptions(warmup_s=0.1, min_s=0.2, max_s=1.0)
WALL_S = 300.0
"""Seconds for all baselines of one case, tuning included."""


def key_of(problem: Problem, case: Case, card: Card) -> BaselineKey:
    """What the record of a case is kept under."""
    return BaselineKey(problem=problem.digest, case=case.label, card=card.target.name, torch=card.torch)


def still_to_time(problem: Problem, card: Card) -> Iterator[Case]:
    """Declared cases whose slow baselines were never timed on this card."""
    yield from (case for case in problem.cases if remembered(key_of(problem, case, card)) is None)


def known(problem: Problem, case: Case, card: Card) -> tuple[RawTimes | None, tuple[tuple[str, str], ...]]:
    """Samples of the slow baselines, where there are some, and which of them are missing and why."""
    record = remembered(key_of(problem, case, card))
    if record is None:
        return None, tuple((name, NOT_YET) for name in LATER)
    return record.raw, tuple((name, why) for name, why in record.missing if name in LATER)


def request_of(problem: Problem, case: Case) -> BaselineRequest:
    """What is asked of the process with the GPU."""
    return BaselineRequest(problem=problem, case=case, baselines=(*AT_ONCE, *LATER), clock=OPTIONS)


def kept(problem: Problem, case: Case, card: Card, result: Result) -> BaselineRecord:
    """Remember what came of a request. Raises ``DeviceError`` when it was nothing."""
    if not isinstance(result, Returned):
        raise DeviceError(f"the baselines of {case.label} could not be timed: {result}")
    try:
        report = BaselineReport.model_validate_json(result.payload)
    except ValidationError as error:
        raise DeviceError(f"the baselines of {case.label}: an answer that makes no sense") from error
    if report.raw is None:
        raise DeviceError(f"the baselines of {case.label} could not be timed: {report.machine}")
    record = BaselineRecord(
        key=key_of(problem, case, card),
        raw=report.raw,
        clock=report.clock,
        options=OPTIONS,
        conditions=report.conditions,
        missing=report.missing,
    )
    remember(record)
    return record


def is_lost(result: Result) -> bool:
    """True when the process may not be used again."""
    if not isinstance(result, Returned):
        return True
    try:
        return BaselineReport.model_validate_json(result.payload).lost
    except ValidationError:
        return True
