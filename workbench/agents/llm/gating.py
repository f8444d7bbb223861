"""Which techniques a model may choose from: the rules say what applies before the model speaks.

Deterministic gating from profile to methods (KernelSkill). Also turns a model's choice back into a technique
vector. Pure, apart from the playbook's caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from workbench.agents.base import Attempt, ReasonRequest
from workbench.agents.llm.answers import Change
from workbench.agents.llm.reading import word_of
from workbench.errors import WorkbenchError
from workbench.model import Hypothesis, Problem, Vector
from workbench.playbook.files.shape_classes import BY_SHAPE
from workbench.playbook.rules.moves import cross, moves
from workbench.playbook.techniques.table import TECHNIQUES, settled

MOST_LISTED = 14
_OUTSIDE = (WorkbenchError, LookupError, ValueError)
"""What the playbook raises for a problem it was not made for: a model does without its rules then."""


class Option(NamedTuple):
    """A technique and a value for it."""

    name: str
    value: str
    title: str
    factor: str
    """Predicted by the playbook's model of time; empty where it predicts nothing."""


def options(request: ReasonRequest) -> tuple[Option, ...]:
    """What may be changed, the most promising first; empty for a problem outside the playbook."""
    try:
        cards = _cards(request)
    except _OUTSIDE:
        return ()
    found: dict[tuple[str, str], Option] = {}
    for card in cards:
        value = dict(card.vector).get(card.technique, "")
        if card.vector not in request.taken and value:
            factor = f"{card.predicted_factor:.2f}x" if card.predicted_factor != 1.0 else ""
            found.setdefault((card.technique, value), Option(card.technique, value, card.title, factor))
    return tuple(found.values())[:MOST_LISTED]


def _cards(request: ReasonRequest) -> Sequence[Hypothesis]:
    problem, target = request.problem, request.target
    vectors = [rules_part(problem, vector_of(parent)) for parent in request.parents]
    if request.operator == "crossover" and len(vectors) > 1:
        return cross(problem, vectors[0], vectors[1], target)
    here = vectors[0] if vectors else settled(problem, ())
    evaluation = request.parents[0].evaluation if request.parents else None
    near: Sequence[Hypothesis] = ()
    if request.operator == "refine" or request.operator == "rewrite":
        near = moves(problem, here, evaluation, target, request.operator)
    return near or moves(problem, here, evaluation, target)


def vector_of(attempt: Attempt) -> Vector:
    """Vector of the kernel, or of the hypothesis while there is none."""
    return attempt.draft.vector if attempt.draft else attempt.branch.hypothesis.vector


def rules_part(problem: Problem, vector: Vector) -> Vector:
    """What of a vector the playbook knows, settled for the problem; empty for a problem outside it."""
    known = tuple((n, v) for n, v in vector if n in TECHNIQUES and v in TECHNIQUES[n].values)
    if BY_SHAPE in dict(vector):
        known = tuple((n, v) for n, v in vector if n in TECHNIQUES)
    try:
        return settled(problem, known)
    except _OUTSIDE:
        return ()


def changed_vector(
    problem: Problem, parents: Sequence[Attempt], changes: Sequence[Change], only_listed: bool
) -> Vector | None:
    """The parent's vector with a model's changes.

    With ``only_listed``, what the rules do not know is left out; None when nothing is left of the changes.
    """
    given = {name: value for parent in reversed(parents) for name, value in vector_of(parent)}
    wanted = {word_of(change.technique): word_of(change.value) for change in changes}
    wanted = {name: value for name, value in wanted.items() if name and value}
    listed = {n: v for n, v in wanted.items() if n in TECHNIQUES and v in TECHNIQUES[n].values}
    before = rules_part(problem, tuple(given.items()))
    after = rules_part(problem, tuple({**given, **listed}.items()))
    if only_listed:
        nothing = bool(changes) and not listed
        return None if nothing or (parents and after == before) else after
    # Nothing is claimed of a model's kernel but what it was asked for.
    return tuple(sorted({**given, **wanted}.items()))
