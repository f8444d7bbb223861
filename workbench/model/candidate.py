"""What agents hand over: a kernel's text, the card it came from, the branch it stands on."""

from __future__ import annotations

from typing import Literal

from workbench.model.value import BranchId, Value

Vector = tuple[tuple[str, str], ...]
"""Technique vector: sorted (technique, value) pairs; both are words a person reads."""


class Kernel(Value):
    """A whole candidate: one ``.cu`` text with its launch plan in a ``/* plan ... */`` comment."""

    source: str


class Draft(Value):
    """What a synthesizer hands over."""

    kernel: Kernel
    vector: Vector = ()
    note: str = ""


Operator = Literal["seed", "refine", "rewrite", "crossover", "repair", "edit"]


class Hypothesis(Value):
    """A card: what is slow, why, and what to do about it."""

    title: str
    bottleneck: Literal["memory", "latency", "compute", "launch", "library", "none"]
    cause: str
    evidence: tuple[str, ...] = ()
    """Facts with numbers and units, each from a count, a report or a model that it names."""
    fix: str
    technique: str = ""
    """Name in the playbook's table, whose paragraph teaches it; empty when it has none."""
    predicted_factor: float = 1.0
    """Expected old time over new time."""
    risk: str = ""
    vector: Vector = ()
    """Technique vector to synthesise; empty when the synthesizer is free."""
    recalled: bool = False
    """From the archive: comes on top of what was asked for, and never in its place."""


class Branch(Value):
    """One node of the tree; its kernel and evaluation arrive later, as events."""

    id: BranchId
    parents: tuple[BranchId, ...] = ()
    """None for a seed, one for most, two or more for a crossover (the first is drawn as the parent)."""
    round: int
    operator: Operator
    hypothesis: Hypothesis
    author: str
