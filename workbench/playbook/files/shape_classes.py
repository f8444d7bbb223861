"""A technique vector that differs by shape: conditions over sizes, and what each class of shapes takes.

In such a vector ``by_shape`` lists the conditions, ``cols<=4096|else``, first come first served, and a
technique that differs lists a value for each, ``256|1024``. Sizes go by their names in the plan. Owns this
spelling and the part of a problem that a class sees; by_shape.py chooses classes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from workbench.errors import UsageError, nearest
from workbench.model import Case, Problem, Vector
from workbench.playbook.files.plan_text import PlanText
from workbench.playbook.ir.unkeyed import Unkeyed

BY_SHAPE = "by_shape"
MOST_CLASSES = 4
"""Classes of shapes in one file: beyond that nobody reads it, and each is compiled."""
_APART = "|"
_ELSE = "else"
_CONDITION = re.compile(r"(?:(\d+)<)?([A-Za-z_]\w*)(?:<=(\d+)|>(\d+))?")


@dataclass(frozen=True)
class Condition:
    """``low < size <= high`` for one size, either bound optional; without a name, whatever is left."""

    name: str = ""
    low: int | None = None
    high: int | None = None

    @property
    def text(self) -> str:
        """In the plan language; empty for what is left."""
        if not self.name:
            return ""
        if self.high is None:
            return f"{self.name} > {self.low}"
        return (
            f"{self.name} <= {self.high}" if self.low is None else f"{self.low} < {self.name} <= {self.high}"
        )

    @property
    def word(self) -> str:
        """In a vector."""
        return self.text.replace(" ", "") or _ELSE

    @property
    def stem(self) -> str:
        """In the name of a kernel."""
        if not self.name:
            return "rest"
        bounds = [str(self.low)] if self.low is not None else []
        return "_".join([self.name, *bounds, *(["to", str(self.high)] if self.high is not None else ["up"])])

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """For sizes by their names in the plan."""
        if not self.name:
            return True
        value = sizes[self.name]
        return (self.low is None or self.low < value) and (self.high is None or value <= self.high)


@dataclass(frozen=True)
class ShapeClass:
    """The shapes that meet one condition and none before it."""

    condition: Condition
    problem: Problem
    """With the cases of the class alone, and a name that tells its kernels apart."""
    vector: Vector


def classes_of(problem: Problem, vector: Vector) -> tuple[ShapeClass, ...]:
    """The classes of a vector; none where all shapes are treated alike. Raises ``UsageError``."""
    conditions = conditions_of(vector)
    if not conditions:
        return ()
    _check_names(problem, conditions)
    found = []
    for number, condition in enumerate(conditions):
        part = _restricted(problem, conditions, number)
        if not part.cases:
            raise UsageError(f"No declared shape is left for {condition.word} of {BY_SHAPE}.")
        found.append(ShapeClass(condition, part, vector_of_class(vector, number)))
    return tuple(found)


def conditions_of(vector: Vector) -> tuple[Condition, ...]:
    """What ``by_shape`` says. Raises ``UsageError`` where it cannot be read."""
    text = dict(vector).get(BY_SHAPE, "")
    if _APART not in text:
        return ()
    words = text.split(_APART)
    if words[-1] != _ELSE or len(words) > MOST_CLASSES:
        raise UsageError(
            f"{BY_SHAPE} cannot be {text!r}: write up to {MOST_CLASSES} conditions such as cols<=4096{_APART}"
            f"{_ELSE}, the last of them {_ELSE}."
        )
    return (*(_read(word) for word in words[:-1]), Condition())


def vector_of_class(vector: Vector, number: int) -> Vector:
    """The plain vector of one class. Raises ``UsageError`` for a value that does not list all classes."""
    count = len(conditions_of(vector))
    pairs = []
    for name, value in vector:
        values = value.split(_APART)
        if name == BY_SHAPE:
            continue
        if len(values) not in (1, count):
            raise UsageError(
                f"{name} lists {len(values)} values for {count} classes of {BY_SHAPE}: {value!r}."
            )
        pairs.append((name, values[number] if len(values) == count else value))
    return tuple(pairs)


def joined(parts: Sequence[tuple[Condition, Vector]], plain: Mapping[str, str]) -> Vector:
    """One vector of several; a technique that a class does not have takes its ``plain`` value there.

    Where the classes turn out alike the vector is a plain one.
    """
    vectors = [dict(vector) for _, vector in parts]
    pairs: dict[str, str] = {}
    for name in {name for vector in vectors for name in vector}:
        values = [vector.get(name, plain[name]) for vector in vectors]
        pairs[name] = values[0] if len(set(values)) == 1 else _APART.join(values)
    if any(_APART in value for value in pairs.values()):
        pairs[BY_SHAPE] = _APART.join(condition.word for condition, _ in parts)
    return tuple(sorted(pairs.items()))


def class_at(classes: Sequence[ShapeClass], problem: Problem, sizes: Mapping[str, int]) -> ShapeClass:
    """The class that takes a shape, by the sizes of its symbols."""
    named = named_sizes(problem, sizes)
    return next(part for part in classes if part.condition.holds(named))


def named_sizes(problem: Problem, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes by their names in the plan instead of by symbol."""
    names = _names(problem)
    return {names[symbol]: size for symbol, size in sizes.items() if symbol in names}


def symbol_of(problem: Problem, name: str) -> str:
    """The symbol of a size by its name in the plan. Raises ``KeyError``."""
    return {local: symbol for symbol, local in _names(problem).items()}[name]


def _names(problem: Problem) -> Mapping[str, str]:
    return _locals(problem.tensors, problem.symbols, Unkeyed(problem))


@lru_cache(maxsize=64)
def _locals(tensors: object, symbols: object, holder: Unkeyed[Problem]) -> Mapping[str, str]:
    return dict(PlanText(holder.value).locals)


def _check_names(problem: Problem, conditions: Sequence[Condition]) -> None:
    known = set(_names(problem).values())
    for condition in conditions:
        if condition.name and condition.name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise UsageError(
                f"{BY_SHAPE} speaks of {condition.name!r}; the sizes that vary are {listed}."
                f"{nearest(condition.name, known)}"
            )


def _read(word: str) -> Condition:
    match = _CONDITION.fullmatch(word)
    if match is None or not any(match.group(1, 3, 4)) or (match[1] and match[4]):
        raise UsageError(
            f"{word!r} is not a condition of {BY_SHAPE}: write cols<=4096, cols>4096 or 64<cols<=4096."
        )
    low = match[1] or match[4]
    return Condition(match[2], int(low) if low else None, int(match[3]) if match[3] else None)


def _restricted(problem: Problem, conditions: Sequence[Condition], number: int) -> Problem:
    """The problem as one class sees it."""

    def belongs(case: Case) -> bool:
        sizes = named_sizes(problem, case.size_map)
        return next(i for i, condition in enumerate(conditions) if condition.holds(sizes)) == number

    return problem.model_copy(
        update={
            "name": f"{problem.name}_{conditions[number].stem}",
            "cases": tuple(case for case in problem.cases if belongs(case)),
            "proofs": tuple(case for case in problem.proofs if belongs(case)),
            "accepted": tuple(c for c in (*problem.proofs, *problem.cases) if not belongs(c)),
        }
    )
