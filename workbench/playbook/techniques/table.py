"""All techniques by name, and the check of a vector against them.

Owns the order in which values are settled. structure.py, algebra.py and fine_tuning.py describe the
techniques, estimate.py predicts what they gain.
"""

from __future__ import annotations

from collections.abc import Mapping

from workbench.errors import UsageError, nearest
from workbench.model import Problem, Vector
from workbench.playbook.files.shape_classes import (
    BY_SHAPE,
    classes_of,
    conditions_of,
    joined,
    vector_of_class,
)
from workbench.playbook.graph.rewrites import REWRITES
from workbench.playbook.schedules.fitting import warps_keep
from workbench.playbook.schedules.schedule import SHORT_ROW, schedule_of
from workbench.playbook.techniques.algebra import ALGEBRA, offers_of
from workbench.playbook.techniques.fine_tuning import FINE_TUNING
from workbench.playbook.techniques.offers import fusion
from workbench.playbook.techniques.structure import STRUCTURE
from workbench.playbook.techniques.technique import Technique
from workbench.playbook.techniques.traits import LAID_OUT_BY, Traits, outline_of, traits_of

_SHAPES = Technique(
    name=BY_SHAPE,
    title="each shape takes the kernel that was fastest there",
    values=("one", "some"),
    offers=lambda traits, settings: (),
    structural=True,
    bottleneck="latency",
    look_for="the factor at each declared shape, not only their mean",
    teaches=(
        "No kernel is best everywhere: 4096 rows fill the card with a block each, a single row of a million "
        "leaves 131 of 132 multiprocessors idle, and a row of 1024 is over before a large block has begun. "
        "The plan knows the shape before anything is launched, so one file can hold a kernel for each kind "
        "of shape and choose with an if; that costs nothing on the GPU. Libraries do the same with tables "
        "of hundreds of kernels. Boundaries between declared shapes are guesses, placed halfway on a "
        "logarithmic scale; every part is judged at the shapes that reach it."
    ),
)
"""Its values are conditions, which no table can list: shape_classes.py reads them."""

TECHNIQUES: Mapping[str, Technique] = {
    technique.name: technique for technique in (STRUCTURE[0], *ALGEBRA, *STRUCTURE[1:], *FINE_TUNING, _SHAPES)
}
"""All techniques by name, in the order in which their values are settled: what is fused and rewritten comes
before what is done with the kernels of that."""

_REWRITING = {STRUCTURE[0].name: fusion, **{name: offers_of(name) for name in REWRITES}}
"""What decides which kernels there are to choose anything for, with what it offers."""
_SEED_VALUES = {"fusion": "all", **dict.fromkeys(REWRITES, "on")}


def check_vector(vector: Vector) -> dict[str, str]:
    """The vector as a mapping. Raises ``UsageError`` for an unknown technique or value."""
    if conditions := conditions_of(vector):
        for number in range(len(conditions)):
            check_vector(vector_of_class(vector, number))
        return dict(vector)
    settings: dict[str, str] = {}
    for name, value in vector:
        technique = TECHNIQUES.get(name)
        if technique is None:
            raise UsageError(f"There is no technique {name!r}.{nearest(name, TECHNIQUES)}")
        if value not in technique.values:
            known = ", ".join(technique.values)
            raise UsageError(
                f"{name} cannot be {value!r}; it is one of {known}.{nearest(value, technique.values)}"
            )
        settings[name] = value
    return settings


def settled(problem: Problem, vector: Vector) -> Vector:
    """The whole vector: a value for every technique that applies, impossible choices replaced.

    What the vector leaves open gets the plain value, but fusion and algebraic rewrites are on. Raises
    ``UsageError``.
    """
    asked = check_vector(vector)
    if classes := classes_of(problem, vector):
        parts = [(part.condition, settled(part.problem, part.vector)) for part in classes]
        whole = joined(parts, {name: technique.plain for name, technique in TECHNIQUES.items()})
        return whole if conditions_of(whole) else settled(problem, whole)
    chosen: dict[str, str] = {}
    outline = outline_of(problem)  # before it is known what is rewritten, the other traits would be in vain
    applying: dict[str, str] = {}
    for name, offers in _REWRITING.items():
        applying |= _settle(name, offers(outline, chosen), asked, chosen)
    traits = traits_of(problem, schedule_of(tuple(chosen.items())).without)
    asked, others = _team_named(traits, asked), traits
    for name, technique in TECHNIQUES.items():
        if name in _REWRITING:
            continue
        applying |= _settle(name, technique.offers(others, chosen), asked, chosen)
        if name in LAID_OUT_BY:
            others = traits.besides(chosen)
    return tuple(sorted(applying.items()))


def _settle(
    name: str, offers: tuple[str, ...], asked: Mapping[str, str], settings: dict[str, str]
) -> dict[str, str]:
    """Adds a technique's value to ``settings``, and gives it back where there is a choice."""
    plain = TECHNIQUES[name].plain
    wanted = asked.get(name, _SEED_VALUES.get(name, plain))
    settings[name] = wanted if wanted in offers else offers[0] if offers else plain
    return {name: settings[name]} if len(offers) > 1 else {}


def _team_named(traits: Traits, asked: dict[str, str]) -> dict[str, str]:
    """A team fitted to the length of its row becomes what it comes to where all rows are short, or long.

    Only rows that a team is chosen for count: the last sum of a loss runs over all rows in one block.
    """
    rows = [row.shape for row in traits.kinds_of_rows if row.shape.neighbours and not row.shape.rows.is_one]
    lengths = [shape.columns.at(case) for shape in rows for case in traits.declared_cases]
    if asked.get("threads_per_row") != "fit" or not lengths or min(lengths) <= SHORT_ROW < max(lengths):
        return asked
    if min(lengths) > SHORT_ROW:
        return {**asked, "threads_per_row": "block"}
    keeps = asked.get("row_cache") == "shared" and all(
        warps_keep(schedule_of(tuple(asked.items())), shape) for shape in rows
    )
    return {**asked, "threads_per_row": "warp", **({"row_cache": "registers"} if keeps else {})}
