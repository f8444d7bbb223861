"""What a model is asked to answer: frozen values whose JSON schema goes with the request.

Owns shapes and limits; the docstrings are part of the schema. Turning them into the workbench's own values
is up to the roles.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from workbench.model import Value


class Change(Value):
    """One technique set to a value."""

    technique: str = Field(max_length=60)
    """A name of the list of techniques, or a short new one in lower_case."""
    value: str = Field(max_length=60)


class Card(Value):
    """One hypothesis: what is slow, why, and what to do about it. At most 35 words a field."""

    title: str = Field(max_length=400)
    bottleneck: Literal["memory", "latency", "compute", "launch", "library", "none"]
    cause: str = Field(max_length=1200)
    evidence: tuple[str, ...] = Field(max_length=12)
    """Numbers from the metrics that were given, each with its name and unit."""
    fix: str = Field(max_length=1200)
    changes: tuple[Change, ...] = Field(max_length=12)
    """What the new kernel does otherwise than its parent."""
    predicted_factor: float
    """Expected old time over new time."""
    risk: str = Field(max_length=1200)


class Cards(Value):
    """Hypotheses, the most promising first."""

    cards: tuple[Card, ...] = Field(max_length=20)


class KernelAnswer(Value):
    """A whole kernel file."""

    name: str = Field(max_length=200)
    description: str = Field(max_length=1200)
    """One sentence."""
    source: str
    """The whole .cu text with its plan comment."""


class RepairAnswer(Value):
    """A corrected kernel file."""

    issue: str = Field(max_length=1200)
    """The critical mistake."""
    why: str = Field(max_length=1200)
    fix: str = Field(max_length=1200)
    """The smallest change that mends it."""
    source: str
    """The whole corrected .cu text with its plan comment; empty when there is no way."""


class ReflectionAnswer(Value):
    """What was learnt."""

    diagnosis_right: bool
    fix_effective: bool
    lesson: str = Field(max_length=600)
    """One sentence."""


Answer = Cards | KernelAnswer | RepairAnswer | ReflectionAnswer


def strict_schema(kind: type[Value]) -> dict[str, Any]:
    """JSON schema in the subset that strict structured outputs take: all required, nothing else allowed.

    Limits of length are left out, as several servers refuse them; they are checked on arrival.
    """
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
        if key not in ("title", "maxLength", "maxItems", "default") or not isinstance(item, str | int)
    }
    if kept.get("type") == "object":
        kept["additionalProperties"] = False
        kept["required"] = list(kept.get("properties", {}))
    return kept
