"""Sizes at which a plan does something that no small proof makes it do. Pure.

A plan may choose another kernel for long rows, and the proofs of a problem are small. Owns which further
sizes are worth a look (``candidates``) and which of them are taken (``chosen``): for every path through the
plan's conditions a few sizes, an odd one among them. Says nothing of what the reference accepts: the process
that runs it does, and drops what it refuses.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.model import Case, Problem
from workbench.plan.interpret import Path
from workbench.plan.parse import Program
from workbench.problem.cost import elements, fixed_elements, multiplications
from workbench.problem.proofs import label
from workbench.referee.comparisons import folded

MOST_CANDIDATES = 48
FEW = 3
"""What other sizes are cut to, so that a long row is not also one of thousands."""
LEAST_POWER = 6
LEAST_VALUES = 4
"""Sizes are the same by chance at fewer."""

Values = Callable[[int], Sequence[int]]
"""What is tried in the place of a declared size."""


@dataclass(frozen=True)
class Reach:
    """What one lane can afford."""

    elements: int
    """Of all tensors of one size, fixed parameters not counted."""
    multiplications: int
    telling: int
    """Elements of the sizes preferred, as a power of two: no degenerate ones, none that take long."""
    a_path: int
    """Sizes wanted for every path that declared sizes take."""
    most: int
    """Sizes taken for one kernel."""
    always: int = 0
    """Of the first candidates, a declared size less one, so many are taken whatever the plan says."""

    def allows(self, problem: Problem, sizes: Mapping[str, int]) -> bool:
        """Whether the lane runs a kernel at these sizes."""
        try:
            varying = elements(problem, sizes) - fixed_elements(problem)
            return 0 < varying <= self.elements and multiplications(problem, sizes) <= self.multiplications
        except ZeroDivisionError:  # a reshape divides by sizes
            return False


EMULATED = Reach(elements=2**20, multiplications=2**24, telling=16, a_path=1, most=3)
ON_GPU = Reach(elements=2**26, multiplications=2**34, telling=20, a_path=2, most=12, always=1)


@dataclass(frozen=True)
class Taken:
    """Sizes and the path they take: a plan's conditions, and the numbers that the CUDA text compares with."""

    case: Case
    path: Path


def candidates(problem: Problem, program: Program, told: Collection[int], reach: Reach) -> tuple[Case, ...]:
    """Sizes within reach at and beside the declared ones, and beside every number of the plan and of
    what it is ``told`` that kernels compare with.

    One size varies at a time, those that are equal wherever the reference is known to run together; the
    others are as declared, or few.
    """
    if not problem.symbols or not problem.proofs:
        return ()
    most = max(n for case in problem.cases for _, n in case.sizes)
    numbers = numbers_of(program, told, most, reach)
    near = tuple(dict.fromkeys(n + by for n in numbers for by in (1, 0, -1, 2, -3)))
    return _within(problem, reach, (_declared_values, lambda declared: near, _power_values))


def spread(problem: Problem, reach: Reach) -> tuple[Case, ...]:
    """Sizes all over the reach, the largest first, each at most half as large again as the next.

    A plan may turn on what the card has, or on a number that it computes: no text says where. These show
    ways that nothing else takes.
    """
    if not problem.symbols or not problem.proofs:
        return ()
    powers = range(reach.elements.bit_length() - 1, LEAST_POWER, -1)
    sizes = tuple(size + 1 for power in powers for size in (2**power, 3 * 2 ** (power - 2)))
    return _within(problem, reach, (lambda declared: sizes,))


def _within(problem: Problem, reach: Reach, values_of: Sequence[Values]) -> tuple[Case, ...]:
    """Cases of these sizes that are new and within reach, the first ``MOST_CANDIDATES``."""
    known = {case.sizes for case in (*problem.proofs, *problem.cases)}
    steps = {s: _step(problem, s) for s in problem.symbols}
    found: dict[tuple[tuple[str, int], ...], Case] = {}
    for sizes in _around(problem, values_of, steps):
        key = tuple(sizes.items())
        if key not in known and key not in found and reach.allows(problem, sizes):
            found[key] = Case(label=label(problem.tensors, sizes), sizes=key, origin="proof")
        if len(found) == MOST_CANDIDATES:
            break
    return tuple(found.values())


def chosen(
    tried: Sequence[Taken],
    offered: Sequence[Taken],
    declared: Collection[Path],
    budget: tuple[Problem, Reach],
) -> tuple[Case, ...]:
    """Which of the ``offered`` sizes complete what is ``tried`` anyway.

    A path that declared sizes take is tried at ``a_path`` sizes, any other at one; one of them odd.
    Paths that nothing tried comes by go first, those of declared sizes before others.
    """
    problem, reach = budget

    def off(case: Case) -> float:
        """How far from the sizes preferred."""
        return abs(math.log2(elements(problem, case.size_map)) - reach.telling)

    seen, lacking = _by_path(tried), _by_path(offered)
    turns: list[tuple[int, bool, float, Case]] = []
    for path, cases in lacking.items():
        have = seen.get(path, [])
        ordered = sorted(cases, key=off)
        wanted = _completing(have, ordered, reach.a_path if path in declared else 1)
        turns += [(n, path not in declared, off(case), case) for n, case in enumerate(wanted, len(have))]
    return tuple(case for *_, case in sorted(turns, key=lambda turn: turn[:3])[: reach.most])


def _by_path(taken: Sequence[Taken]) -> dict[Path, list[Case]]:
    found: dict[Path, list[Case]] = {}
    for one in taken:
        found.setdefault(one.path, []).append(one.case)
    return found


def unexercised(problem: Problem, taken: Sequence[Taken], ran: Sequence[Case]) -> tuple[str, ...]:
    """Labels of declared cases whose path through the plan nothing that was run takes."""
    paths = {one.path for one in taken if one.case in ran}
    return tuple(one.case.label for one in taken if one.case in problem.cases and one.path not in paths)


# ------------------------------------------------------------------------------------ sizes


def numbers_of(program: Program, told: Collection[int], most: int, reach: Reach) -> tuple[int, ...]:
    """Numbers that sizes may be compared with: those of the plan's comparisons and all ``told``, as far as a
    lane reaches; others of the plan up to twice the largest size, ``most``."""
    far = {n for one in _comparisons(program.function) for n in _numbers(one)} | set(told)
    near = {n for n in _numbers(program.function) if n <= 2 * most}
    return tuple(sorted(n for n in near | far if 1 < n <= reach.elements))


def _comparisons(tree: ast.AST) -> Iterator[ast.Compare]:
    """All but those that turn sizes away."""
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "require":
        return
    if isinstance(tree, ast.Compare):
        yield tree
    for inside in ast.iter_child_nodes(tree):
        yield from _comparisons(inside)


def _numbers(tree: ast.AST) -> set[int]:
    values = (folded(node) for node in ast.walk(tree) if isinstance(node, ast.Constant | ast.BinOp))
    return {value for value in values if isinstance(value, int) and not isinstance(value, bool)}


def beside(sizes: Mapping[str, int], numbers: Sequence[int]) -> Path:
    """On which side of every number each size lies, in the form of a plan's path."""
    return tuple(
        (-1 - place, number, value >= number)
        for place, value in enumerate(sizes.values())
        for number in numbers
    )


def _around(
    problem: Problem, values_of: Sequence[Values], steps: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """Every combination worth interpreting the plan for, the likeliest boundaries first."""
    equal = {symbol: _equal(problem, symbol) for symbol in problem.symbols}
    least = {symbol: _least(problem, symbol) for symbol in problem.symbols}
    for values in values_of:
        for symbol in reversed(problem.symbols):
            for case in problem.cases:
                declared = case.size_map
                for value in values(declared[symbol]):
                    step = steps[symbol]
                    size = value if step == 1 else max(value // step, 1) * step
                    for others in ({s: max(_few(steps[s]), least[s]) for s in declared}, declared):
                        if size >= max(least[s] for s in equal[symbol]):
                            yield {
                                s: size if s in equal[symbol] else min(others[s], declared[s])
                                for s in declared
                            }


def _few(step: int) -> int:
    return FEW if step == 1 else step


def _declared_values(declared: int) -> tuple[int, ...]:
    return (declared - 1, declared, declared - 2)


def _power_values(declared: int) -> tuple[int, ...]:
    return tuple(2**power + 1 for power in range(declared.bit_length() - 1, LEAST_POWER, -1))


def _step(problem: Problem, symbol: str) -> int:
    """What all sizes that the reference is known to take are multiples of."""
    return math.gcd(*(case.size_map[symbol] for case in (*problem.proofs, *problem.cases)))


def _least(problem: Problem, symbol: str) -> int:
    """The smallest that the reference is known to take: of a table that data looks into, it may refuse less.

    Where nothing is refused, that is 1 or 2: proofs are small.
    """
    return min(case.size_map[symbol] for case in (*problem.proofs, *problem.cases))


def _equal(problem: Problem, symbol: str) -> Collection[str]:
    """The sizes that are the same wherever the reference is known to run: it may refuse others on data.

    Of few values it may be by chance, and then the size is alone.
    """
    known = [case.size_map for case in (*problem.proofs, *problem.cases)]
    if len({sizes[symbol] for sizes in known}) < LEAST_VALUES:
        return (symbol,)
    return tuple(s for s in problem.symbols if all(sizes[s] == sizes[symbol] for sizes in known))


def _completing(have: Sequence[Case], ordered: Sequence[Case], wanted: int) -> list[Case]:
    """The fewest of the sizes, so that so many are tried and one of them is odd."""
    taken: list[Case] = []
    if not any(_odd(case) for case in have):
        taken += [case for case in ordered if _odd(case)][:1]
    for case in ordered:
        if len(have) + len(taken) >= wanted:
            break
        taken += [case] if case not in taken else []
    return taken


def _odd(case: Case) -> bool:
    return case.sizes[-1][1] % 2 == 1
