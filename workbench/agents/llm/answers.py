"""What a model is asked to answer: frozen values whose JSON schema goes with the request.

Owns shapes; the docstrings are part of the schema. Limits of length are kept where an answer becomes one of
the workbench's own values: a title too long is shortened, not refused.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from workbench.model import Value


class Change(Value):
    """One technique set to a value."""

    technique: str
    """A name of the list of techniques, or a short new one in lower_case."""
    value: str


class Card(Value):
    """One hypothesis: what is slow, why, and what to do about it. At most 35 words a field."""

    title: str
    bottleneck: Literal["memory", "latency", "compute", "launch", "library", "none"]
    cause: str
    evidence: tuple[str, ...]
    """Numbers from the metrics that were given, each with its name and unit."""
    fix: str
    changes: tuple[Change, ...]
    """What the new kernel does otherwise than its parent."""
    predicted_factor: float
    """Expected old time over new time."""
    risk: str


class Cards(Value):
    """Hypotheses, the most promising first."""

    cards: tuple[Card, ...]


class KernelAnswer(Value):
    """A whole kernel file."""

    name: str
    description: str
    """One sentence."""
    source: str
    """The whole .cu text with its plan comment."""


class RepairAnswer(Value):
    """A corrected kernel file."""

    issue: str
    """The critical mistake."""
    why: str
    fix: str
    """The smallest change that mends it."""
    source: str
    """The whole corrected .cu text with its plan comment; empty when there is no way."""


class ReflectionAnswer(Value):
    """What was learnt."""

    diagnosis_right: bool
    fix_effective: bool
    lesson: str
    """One sentence."""


@cache
def strict_schema(kind: type[Value]) -> dict[str, Any]:
    """JSON schema in the subset that strict structured outputs take: all required, nothing else allowed."""
    schema: dict[str, Any] = _strict(kind.model_json_schema())
    return schema


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {
        key: {name: _strict(value) for name, value in item.items()}
        if key in ("properties", "$defs")
        else _strict(item)
        for key, item in node.items()
        if key not in ("title", "default") or not isinstance(item, str | int)
    }
    if kept.get("type") == "object":
        kept["additionalProperties"] = False
        kept["required"] = list(kept.get("properties", {}))
    return kept
