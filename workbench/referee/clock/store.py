"""Baselines remembered across candidates and sessions: measured once a problem, case, card and torch.

Owns the record and where it lies. What it holds is a receipt of its own: raw samples, clock, conditions.
"""

from __future__ import annotations

import hashlib

from pydantic import ValidationError

from workbench.compile.cache import Store, cache_folder
from workbench.model import Conditions, Digest, Value
from workbench.referee.clock.options import ClockOptions
from workbench.referee.clock.samples import RawTimes

VERSION = "1"
"""Changes when records measured by an earlier version of the clock are not to be used."""


class BaselineKey(Value):
    """Everything a baseline's time depends on; the precision contract is part of the problem."""

    problem: Digest
    case: str
    card: str
    torch: str
    triton: str = ""


class BaselineRecord(Value):
    """Baselines of one case, sampled in turns with each other."""

    key: BaselineKey
    raw: RawTimes
    clock: str
    options: ClockOptions
    conditions: Conditions
    missing: tuple[tuple[str, str], ...] = ()
    """Baselines that failed, and why; they are not tried again."""


def remembered(key: BaselineKey) -> BaselineRecord | None:
    """The record, or None when there is none that can be read."""
    body = _store().get(_name(key))
    if body is None:
        return None
    try:
        record = BaselineRecord.model_validate_json(body)
    except ValidationError:
        return None
    return record if record.key == key else None


def remember(record: BaselineRecord) -> bool:
    """Keep a record; False when the disk does not take it."""
    return _store().put(_name(record.key), record.model_dump_json().encode())


def _store() -> Store:
    return Store(cache_folder() / "baselines")


def _name(key: BaselineKey) -> str:
    return hashlib.sha256((VERSION + key.model_dump_json()).encode()).hexdigest()
