"""Which sizes a problem is tried on: the declared ones, and small ones chosen to catch mistakes.

Pure arithmetic on size expressions; a callback says what the reference accepts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.errors import ProblemError
from workbench.model import Case, Dim, Problem, TensorSpec, size_of
from workbench.problem.cost import elements, fixed_elements, multiplications

MOST_PROOFS = 8
MOST_ELEMENTS = 2**19
"""Of all tensors of one proof together, fixed parameters not counted."""
MOST_MULTIPLICATIONS = 2**22
"""Of its matrix products, unless the smallest sizes already take more."""
LEAST_ELEMENTS = 2**23
LEAST_MULTIPLICATIONS = 2**33
"""What the smallest proof may cost where nothing is cheaper."""
SLOW_MULTIPLICATIONS = 2**28
"""Up to here 16 times the smallest proof's products are still allowed, beyond only twice."""
MOST_NODES = 2**14
"""Operations that all questions to the reference may take together: a deep network is asked less often."""
LARGE_FIXED = 2**22
"""With more fixed elements than this (parameters that no proof can make smaller), proofs are few."""
LARGEST_FIXED = 2**27
FEW_PROOFS = 2
LARGEST_UNVARYING = 2**23
"""Elements of a problem without any size that varies, which is its own only proof."""

MOST_RATIOS = 3
"""Ratios of sizes that are tried where sizes that vary alone are none."""

Accept = Callable[[Mapping[str, int]], bool]


def proofs(
    problem: Problem,
    accept: Accept,
    tied: bool = False,
    like: Mapping[str, Dim] | None = None,
    least: Mapping[str, int] | None = None,
) -> tuple[Case, ...]:
    """Choose at most ``MOST_PROOFS`` small cases: 1, odd, just below and above powers of two, long rows.

    ``accept`` says whether the reference takes the sizes. A pattern whose sizes are refused is tried
    again with the next larger ones. Needs ``problem.cases``; without symbols the declared case is the
    only proof, if it is small. Very large parameters leave few proofs, or none. With ``tied``, sizes that
    are equal at the declared case stay equal, those of parameters too; in ``like``, symbols are what
    they are instead of varying: a number, or so many times another. No symbol is less than ``least`` has it.
    """
    declared = problem.cases[0]
    fixed = fixed_elements(problem)
    if fixed > LARGEST_FIXED:
        return ()
    if not problem.symbols:
        return (proof_of(problem, {}),) if elements(problem, {}) <= LARGEST_UNVARYING else ()
    most = MOST_PROOFS if fixed <= LARGE_FIXED else FEW_PROOFS
    budget = Budget(LEAST_ELEMENTS, LEAST_MULTIPLICATIONS)
    tries = max(MOST_PROOFS, MOST_NODES // max(len(problem.graph.nodes), 1))
    like, lowest = {**(_ties(problem) if tied else {}), **(like or {})}, least or {}
    found: dict[tuple[tuple[str, int], ...], Case] = {}
    for pattern in _patterns(problem, declared.size_map):
        for attempt in _attempts(budget.shrunk(pattern, problem)):
            sizes = {s: max(size_of(like.get(s, s), attempt), lowest.get(s, 0)) for s in attempt}
            if tries and budget.allow(problem, sizes):
                tries -= 1
                if accept(sizes):
                    if not found:
                        sizes, budget = _cheaper(problem, sizes, budget, accept, lowest)
                    case = proof_of(problem, sizes)
                    found.setdefault(case.sizes, case)
                    break
        if len(found) == most:
            break
    return tuple(found.values())


def _cheaper(
    problem: Problem, sizes: dict[str, int], budget: Budget, accept: Accept, least: Mapping[str, int]
) -> tuple[dict[str, int], Budget]:
    """The first sizes, and what the others may cost by these; where they hold more than is usual, as many of
    one as the reference takes. A result of blocks of 64 by 64 needs no batch of 64."""
    usual = replace(budget, elements=MOST_ELEMENTS)
    for symbol in sizes if not usual.allow(problem, sizes) else ():
        fewer = {**sizes, symbol: max(1, least.get(symbol, 0))}
        if budget.allow(problem, fewer) and accept(fewer):
            sizes = fewer
    return sizes, budget.around(problem, sizes)


def _ties(problem: Problem) -> dict[str, Dim]:
    """For each symbol the first that has its declared size, or that size where a parameter has it."""
    held = {dim for spec in problem.tensors if spec.role != "input" for dim in spec.dims}
    first: dict[int, str] = {}
    found: dict[str, Dim] = {}
    for symbol, size in problem.cases[0].size_map.items():
        found[symbol] = size if size in held and size > 1 else first.setdefault(size, symbol)
    return found


def proportions(problem: Problem) -> Iterator[dict[str, Dim]]:
    """Sizes as multiples of others, as elements are of blocks that have a scale each; for ``like``.

    One ratio of declared sizes after the other: most are there by chance.
    """
    declared = problem.cases[0].size_map
    ratios = {n // m for n in declared.values() for m in declared.values() if n % m == 0}
    for ratio in sorted(ratios - {1})[:MOST_RATIOS]:
        found: dict[str, Dim] = {}
        parts: list[str] = []
        for whole in problem.symbols:
            part = next((s for s in problem.symbols if s not in parts and _is(ratio, problem, whole, s)), "")
            if part:
                found[whole] = f"{ratio}*{part}"
                parts.append(part)
        if found:
            yield found


def _is(ratio: int, problem: Problem, whole: str, part: str) -> bool:
    return all(case.size_map[whole] == ratio * case.size_map[part] for case in problem.cases)


@dataclass(frozen=True)
class Budget:
    """What one proof may cost. The first one, or a cheaper one of its kind, sets the limits of the others."""

    elements: int
    multiplications: int

    def allow(self, problem: Problem, sizes: Mapping[str, int]) -> bool:
        """Whether the sizes stay within the limits; sizes that some shape cannot be computed from do not."""
        try:
            varying = elements(problem, sizes) - fixed_elements(problem)
            return varying <= self.elements and multiplications(problem, sizes) <= self.multiplications
        except ZeroDivisionError:  # a reshape divides by sizes, such as s0*s1//(s1//4)
            return False

    def around(self, problem: Problem, smallest: Mapping[str, int]) -> Budget:
        """The usual limits, or a few times what cannot be had cheaper."""
        varying = elements(problem, smallest) - fixed_elements(problem)
        least = multiplications(problem, smallest)
        products = max(MOST_MULTIPLICATIONS, min(16 * least, SLOW_MULTIPLICATIONS), 2 * least)
        return Budget(max(MOST_ELEMENTS, 2 * varying), products)

    def halved(self) -> Budget:
        """Half of everything."""
        return Budget(self.elements // 2, self.multiplications // 2)

    def shrunk(self, pattern: Mapping[str, int], problem: Problem) -> dict[str, int]:
        """Halve the largest size until the pattern is within the limits."""
        sizes = dict(pattern)
        while not self.allow(problem, sizes) and max(sizes.values()) > 1:
            largest = max(sizes, key=lambda s: sizes[s])
            sizes[largest] //= 2
        return sizes


def declared_case(
    specs: Sequence[TensorSpec], given: Sequence[tuple[int, ...]], base: Mapping[str, int]
) -> dict[str, int]:
    """Sizes of the symbols for one entry of ``shapes``: a shape per tensor input, the first ones first.

    Symbols that no given shape determines keep their value of ``base``. Raises ``ProblemError`` when
    a shape does not fit.
    """
    inputs = [spec for spec in specs if spec.role == "input"]
    if len(given) > len(inputs):
        there_are = "is 1 input" if len(inputs) == 1 else f"are {len(inputs)} inputs"
        raise ProblemError(f"shapes has {len(given)} shapes in one entry, but there {there_are}")
    sizes: dict[str, int] = {}
    fits = list(zip(inputs, given, strict=False))
    for spec, shape in fits:
        if len(shape) != len(spec.dims):
            noun = "size" if len(shape) == 1 else "sizes"
            as_given = tuple(size_of(dim, base) for dim in spec.dims)
            raise ProblemError(
                f"shapes: {shape} has {len(shape)} {noun}, but {spec.name} has {len(spec.dims)}, "
                f"as in {as_given}"
            )
        for axis, (dim, size) in enumerate(zip(spec.dims, shape, strict=True)):
            symbol, value = _solved(dim, size, base)
            if symbol and sizes.setdefault(symbol, value) != value:
                raise ProblemError(
                    f"shapes: {_told(fits)} do not fit together: axis {axis} of {spec.name} "
                    f"must be {size_of(dim, sizes)}"
                )
    complete = {**base, **sizes}
    for spec, shape in fits:
        for axis, (dim, size) in enumerate(zip(spec.dims, shape, strict=True)):
            if size_of(dim, complete) != size:
                raise ProblemError(
                    f"shapes: {_told(fits)} does not fit: axis {axis} of {spec.name} must be "
                    f"{size_of(dim, complete)}, it cannot vary on its own"
                )
    return complete


def _solved(dim: Dim, size: int, symbols: Mapping[str, int]) -> tuple[str, int]:
    """The symbol of a linear size expression and its value where the expression is ``size``."""
    found = [s for s in symbols if isinstance(dim, str) and s in re.findall(r"\w+", dim)]
    if len(found) != 1:
        return "", 0
    at_zero, at_one = (size_of(dim, {found[0]: n}) for n in (0, 1))
    step = at_one - at_zero
    return (found[0], (size - at_zero) // step) if step else ("", 0)


def label(specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> str:
    """``4096x32768``: the first input's shape, and those of others whose sizes it does not tell."""
    known: set[Dim] = set()
    parts: list[str] = []
    for spec in specs:
        new = {dim for dim in spec.dims if isinstance(dim, str)} - known
        if spec.role == "input" and (new or not parts):
            parts.append("x".join(str(size_of(dim, sizes)) for dim in spec.dims) or "scalar")
            known |= new
    return ",".join(parts)


def _told(fits: Sequence[tuple[TensorSpec, tuple[int, ...]]]) -> str:
    return " and ".join(f"{spec.name} {shape}" for spec, shape in fits)


def proof_of(problem: Problem, sizes: Mapping[str, int]) -> Case:
    """A small case of these sizes."""
    return Case(label=label(problem.tensors, sizes), sizes=tuple(sizes.items()), origin="proof")


# ------------------------------------------------------------------------------------ patterns

_OUTER = (1, 2, 3, 5, 129, 2, 257, 4)
_INNER = (1, 7, 33, 127, 128, 1025, 1, 2048)
"""Sizes of leading and trailing axes, pattern by pattern: one element; shorter than a vector; odd; one
below and at a multiple of a warp; above a block's reach; a column; a long row that vectors divide."""
_FEW = 7
"""With more leading sizes than this many only one of them is long."""
_NEXT = (
    1, 2, 3, 4, 6, 7, 8, 12, 16, 24, 31, 32, 33, 48, 64, 96, 127, 128, 192, 256, 384, 512, 768, 1024, 1025,
)  # fmt: skip
_LATER = (1280, 1536, 2047, 2048, 4096, 4097, 8192, 16384, 32768)
_ATTEMPTS = 48


def _patterns(problem: Problem, declared: Mapping[str, int]) -> list[dict[str, int]]:
    inner = _inner_symbols(problem)
    outer = [s for s in problem.symbols if s not in inner]
    patterns = []
    for turn, (few, many) in enumerate(zip(_OUTER, _INNER, strict=True)):
        # With several trailing sizes (a matrix product's) only one at a time is long.
        long = inner[turn % len(inner)] if inner else ""
        sizes = dict.fromkeys(outer, few if few <= _FEW else 2)
        if few > _FEW and outer:
            sizes[outer[-1 - turn // 2 % len(outer)]] = few
        sizes |= {s: many if s == long else min(many, 5 + index) for index, s in enumerate(inner)}
        patterns.append({s: sizes[s] for s in problem.symbols})
    patterns.insert(6, _like_declared(problem, declared, inner))
    return patterns


def _inner_symbols(problem: Problem) -> list[str]:
    last = {str(spec.dims[-1]) for spec in problem.tensors if spec.dims}
    inner = [s for s in problem.symbols if s in last]
    return inner or list(problem.symbols[-1:])


def _like_declared(problem: Problem, declared: Mapping[str, int], inner: Sequence[str]) -> dict[str, int]:
    """The declared sizes with leading axes cut first: few rows as long as the person's, if they fit."""
    sizes = dict(declared)
    budget = Budget(MOST_ELEMENTS, MOST_MULTIPLICATIONS).halved()
    for symbol in sorted(sizes, key=lambda s: (s in inner, -sizes[s])):
        least = 1024 if symbol in inner else 3
        while sizes[symbol] > least and not budget.allow(problem, sizes):
            sizes[symbol] = max(sizes[symbol] // 2, least)
    return sizes


def _attempts(pattern: Mapping[str, int]) -> list[dict[str, int]]:
    """The pattern, then ever larger sizes in its place: one symbol moved at a time, then all together."""
    attempts = [dict(pattern)]
    ladder = {s: [n for n in (*_NEXT, *_LATER) if n > size] for s, size in pattern.items()}
    for symbol in pattern:
        attempts += [{**pattern, symbol: size} for size in ladder[symbol][:8]]
    rungs = itertools.zip_longest(*ladder.values())
    attempts += [{s: size or pattern[s] for s, size in zip(pattern, rung, strict=True)} for rung in rungs]
    return attempts[:_ATTEMPTS]
