"""The passes over a row: which reductions are made together, which loads wait from pass to pass.

Owns the analysis of a row kernel, before any text. A pass makes every reduction whose operands are
known; the last pass stores what has a value a column.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from workbench.playbook.analysis.co_moments import co_moments_of
from workbench.playbook.analysis.dominators import Dominators
from workbench.playbook.analysis.placement import matrix
from workbench.playbook.analysis.weighted_sums import Joint, joints_of
from workbench.playbook.ir.expr import (
    Apply,
    Const,
    Expr,
    Index,
    Load,
    Pool,
    Reduction,
    always_below,
    leaves,
    unguarded,
    walk,
    walk_all,
)
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.unkeyed import Unkeyed
from workbench.playbook.ir.views import NotAView, View, split


@dataclass(frozen=True)
class Accumulator:
    """What a pass carries along a row: one reduction, or two that are made at once."""

    kind: str
    """An operation of the reduction table, ``softmax``, ``logsum``, ``welford``, or a ``Joint``'s kind."""
    operand: Expr
    """Full-level expression that enters, column by column."""
    keys: tuple[int, ...]
    """Reductions it yields: (max, sum of exponentials) for softmax and logsum, (sum, sum of squares) for
    welford, (place, extreme) for an arg-reduction whose extreme is wanted too; those of a ``Joint``."""
    other: Expr | None = None
    """The second operand of a ``Joint``."""

    @property
    def operands(self) -> tuple[Expr, ...]:
        """All that enters."""
        return (self.operand,) if self.other is None else (self.operand, self.other)


@dataclass
class Pass:
    """One walk over the columns."""

    accumulators: list[Accumulator] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)

    @property
    def roots(self) -> list[Expr]:
        """Full-level expressions the pass evaluates."""
        entering = [operand for a in self.accumulators for operand in a.operands]
        return entering + [store.value for store in self.stores]


class RowSpace:
    """A kernel's (rows, columns) space: tells values a row from values a column."""

    def __init__(self, pool: Pool, kernel: Kernel) -> None:
        self.pool = pool
        self.rows: Size = kernel.stores[0].rows
        self.columns: Size = kernel.stores[0].columns
        self._space = matrix(self.rows, self.columns)
        over = pool.over(self.rows, self.columns)
        self._forms, self._column_loads = over.row_forms, over.column_loads
        self._row_parts, self._places = over.row_parts, over.places

    def row_form(self, expr: Expr) -> Expr | None:
        """The same value over the rows alone; None when it differs from column to column."""
        if expr.serial not in self._forms:
            try:
                self._forms[expr.serial] = self.pool.through(
                    expr, self._space.rows_only, ("rows_only", self._space)
                )
            except NotAView:
                self._forms[expr.serial] = None
        return self._forms[expr.serial]

    def places(self, leaf: Load | Index | Reduction) -> tuple[View, View]:
        """The part of a leaf's view that depends on the row (with the offset), and the part that depends on
        the column. Raises ``NotAView``."""
        if leaf.serial not in self._places:
            self._places[leaf.serial] = split(leaf.view, self.rows, self.columns)
        return self._places[leaf.serial]

    def is_of_columns(self, expr: Expr) -> bool:
        """True for what differs from column to column and is the same in all rows."""
        if self.row_form(expr) is not None:
            return False
        return all(
            not isinstance(leaf, Reduction)
            and not (isinstance(leaf, Load) and leaf.lookups)
            and self.places(leaf)[0].is_constant
            for leaf in leaves(expr)
        )

    def row_parts(self, root: Expr) -> tuple[Expr, ...]:
        """Values a row, more than numbers, that a full-level expression uses as they are."""
        if root.serial not in self._row_parts:
            found: dict[int, Expr] = {}
            for expr in (root, *(part for whole in unguarded(root) for part in self._used_by(whole))):
                if not isinstance(expr, Const) and self.row_form(expr) is not None and any(leaves(expr)):
                    found[expr.serial] = expr
            self._row_parts[root.serial] = tuple(found[serial] for serial in sorted(found))
        return self._row_parts[root.serial]

    def _used_by(self, expr: Expr) -> tuple[Expr, ...]:
        """Operands of what differs from column to column."""
        return always_below(expr) if self.row_form(expr) is None else ()

    def column_loads(self, roots: Sequence[Expr], guarded: bool = False) -> list[Load]:
        """Loads that differ from column to column, in order of appearance; ``guarded`` ones on request."""
        found = {load.serial: load for root in roots for load in self._loads_of(root, guarded)}
        return [found[serial] for serial in sorted(found)]

    def _loads_of(self, root: Expr, guarded: bool) -> tuple[Load, ...]:
        key = (root.serial, guarded)
        if key not in self._column_loads:
            below = walk(root) if guarded else unguarded(root)
            loads = (leaf for leaf in below if isinstance(leaf, Load))
            self._column_loads[key] = tuple(load for load in loads if self.row_form(load) is None)
        return self._column_loads[key]


def passes_of(space: RowSpace, kernel: Kernel, single_pass: bool) -> list[Pass]:
    """Passes over the columns in order; a store is made as soon as the reductions it needs are."""
    found = _passes(Unkeyed(space), space.rows, space.columns, tuple(kernel.stores), single_pass)
    return [Pass(list(step.accumulators), list(step.stores)) for step in found]


@lru_cache(maxsize=2048)
def _passes(
    holder: Unkeyed[RowSpace], rows: Size, columns: Size, stores: tuple[Store, ...], single_pass: bool
) -> list[Pass]:
    """The same: a search asks again for every vector."""
    space = holder.value
    reductions = _reductions(stores)
    known: dict[int, int] = {}
    depths = {key: _depth(reduction, known) for key, reduction in reductions.items()}
    used = _used_together(stores)
    joints = _joints(space, reductions, used) if single_pass else {}
    alone = {key: reduction for key, reduction in reductions.items() if key not in joints}
    pairs = _pairs(space, alone, used) if single_pass else {}
    along = pairs.keys() | {key for key, joint in joints.items() if key != joint.keys[0]}
    passes: list[Pass] = []
    for depth in range(1, max(depths.values(), default=0) + 1):
        made = [r for key, r in reductions.items() if depths[key] == depth and key not in along]
        accumulators = [_accumulator(reduction, pairs, joints) for reduction in made]
        accumulators += [_alone(pair.first) for pair in pairs.values() if pair.apart and pair.first in made]
        accumulators = _without_twins(accumulators)
        if accumulators:
            passes.append(Pass(accumulators))
    made_in = {key: number for number, step in enumerate(passes) for a in step.accumulators for key in a.keys}
    ready = len(passes)
    for store in stores:
        if store.level == "full":
            needs = [made_in[leaf.key] + 1 for leaf in leaves(store.value) if isinstance(leaf, Reduction)]
            number = max(needs, default=0)
            if number == len(passes):
                passes.append(Pass())
            passes[min(number, ready)].stores.append(store)
    return passes


def _without_twins(accumulators: list[Accumulator]) -> list[Accumulator]:
    """An arg-reduction knows its extreme value too: no second accumulator for that."""
    found = list(accumulators)
    for arg in accumulators:
        for other in accumulators:
            if arg.kind == f"arg{other.kind}" and arg.operand is other.operand:
                found[found.index(arg)] = replace(arg, keys=(*arg.keys, *other.keys))
                found.remove(other)
    return found


def _reductions(stores: Sequence[Store]) -> dict[int, Reduction]:
    found: dict[int, Reduction] = {}
    for expr in walk_all([store.value for store in stores], into_reductions=True):
        if isinstance(expr, Reduction):
            found.setdefault(expr.key, expr)
    return dict(sorted(found.items()))


def _depth(reduction: Reduction, known: dict[int, int]) -> int:
    if reduction.key not in known:
        below = (leaf for leaf in leaves(reduction.body) if isinstance(leaf, Reduction))
        known[reduction.key] = 1 + max((_depth(leaf, known) for leaf in below), default=0)
    return known[reduction.key]


def _used_together(stores: Sequence[Store]) -> list[set[int]]:
    """Reductions that each store depends on, directly."""
    return [{leaf.key for leaf in leaves(s.value) if isinstance(leaf, Reduction)} for s in stores]


# ------------------------------------------------------------------------------------ two at once


@dataclass(frozen=True)
class _Pair:
    kind: str
    first: Reduction
    second: Reduction
    apart: bool = False
    """The first is made by itself too: that result counts."""


def _joints(space: RowSpace, reductions: dict[int, Reduction], stores: list[set[int]]) -> dict[int, Joint]:
    """What goes along with two means or with maxima, by key; who uses a maximum uses its sum, as in pairs."""
    found: dict[int, Joint] = {}
    means = co_moments_of(reductions, lambda expr: is_count(space, expr), stores)
    found.update((key, joint) for joint in means for key in joint.keys)
    for joint in joints_of(reductions):
        tops = dict(zip(joint.keys[:4:2], joint.keys[1:4:2], strict=False))
        if all(total in used for used in stores for top, total in tops.items() if top in used):
            found.update(dict.fromkeys(joint.keys, joint))
    return found


def _accumulator(reduction: Reduction, pairs: dict[int, _Pair], joints: dict[int, Joint]) -> Accumulator:
    if joint := joints.get(reduction.key):
        return Accumulator(joint.kind, joint.operand, joint.keys, joint.other)
    for pair in pairs.values():
        if pair.first.key == reduction.key:
            return Accumulator(pair.kind, reduction.body, (pair.first.key, pair.second.key))
    return _alone(reduction)


def _alone(reduction: Reduction) -> Accumulator:
    return Accumulator(reduction.op, reduction.body, (reduction.key,))


def _pairs(space: RowSpace, reductions: dict[int, Reduction], stores: list[set[int]]) -> dict[int, _Pair]:
    """Second reductions that one pass can make with their first, by key; a first takes one partner.

    With infinities the first comes out as NaN where two passes give an infinity. A store that uses the
    second too is NaN either way; for one that does not, the first is made by itself beside the pair.
    """
    found: dict[int, _Pair] = {}
    taken: set[int] = set()
    for key, second in reductions.items():
        pair = _softmax_pair(second, reductions) or _variance_pair(space, second, reductions)
        if pair is None or pair.first.key in taken:
            continue
        taken.add(pair.first.key)
        found[key] = replace(pair, apart=any(key not in used for used in stores if pair.first.key in used))
    return found


def _softmax_pair(second: Reduction, reductions: dict[int, Reduction]) -> _Pair | None:
    """sum(exp(e - max(e))), or with 0 in place of a maximum that is infinite."""
    match second:
        case Reduction(
            op="sum",
            dtype="f32",
            body=Apply(op="exp", args=(Apply(op="sub", args=(operand, Reduction(op="max", key=key))),)),
        ) if reductions[key].body is operand:
            return _Pair("softmax", reductions[key], second)
        case Reduction(
            op="sum", dtype="f32", body=Apply(op="exp", args=(Apply(op="sub", args=(operand, shift)),))
        ) if (first := _finite_of(shift)) is not None and first.body is operand:
            return _Pair("logsum", reductions[first.key], second)
    return None


def _finite_of(shift: Expr) -> Reduction | None:
    """The maximum, in whose place 0 is taken if it is infinite: as a log of a sum of exponentials does."""
    match shift:
        case Apply(
            op="where",
            args=(
                Apply(
                    op="eq", args=(Apply(op="abs", args=(Reduction(op="max") as tested,)), Const(value=limit))
                ),
                Const(value=instead),
                Reduction(op="max") as first,
            ),
        ) if tested.key == first.key and limit == math.inf and instead == 0:
            return first
    return None


def _variance_pair(space: RowSpace, second: Reduction, reductions: dict[int, Reduction]) -> _Pair | None:
    """sum((e - sum(e) / count) ** 2)"""
    match second:
        case Reduction(
            op="sum",
            dtype="f32",
            body=Apply(
                op="mul",
                args=(
                    Apply(
                        op="sub", args=(operand, Apply(op="div", args=(Reduction(op="sum", key=key), count)))
                    ) as d,
                    other,
                ),
            ),
        ) if d is other and reductions[key].body is operand and is_count(space, count):
            return _Pair("welford", reductions[key], second)
    return None


def is_count(space: RowSpace, expr: Expr) -> bool:
    """True for the number of columns as a constant."""
    if not isinstance(expr, Const) or isinstance(expr.value, bool):
        return False
    if isinstance(expr.value, str):
        return space.pool.sizes.read(expr.value) == space.columns
    return space.columns.number is not None and expr.value == space.columns.number


# ------------------------------------------------------------------------------------ what waits


@dataclass(frozen=True)
class Waiting:
    """A load that stays on the chip from its first pass on."""

    load: Load
    first: int
    last: int
    turns: tuple[tuple[int, Expr], ...] = ()
    """Passes, and what takes its place in each: later ones use it only through that."""
    taken_in: tuple[Load, ...] = ()
    """Other loads that go into what takes its place, and are not needed afterwards."""

    def before(self, number: int) -> Expr:
        """What waits for a pass."""
        return next((part for turn, part in reversed(self.turns) if turn < number), self.load)

    def made_in(self, number: int) -> Expr | None:
        """What takes its place in a pass; None where it stays what it is."""
        return next((part for turn, part in self.turns if turn == number), None)


def waiting_loads(space: RowSpace, passes: list[Pass], together: bool = False) -> list[Waiting]:
    """Loads of more than one pass that depend on the row, each with what it may turn into.

    ``together``, what later passes need of several may be one value: a sum, where it is all they ask for. Not
    where all loads of a row are asked for before its first pass.
    """
    roots = tuple(tuple(step.roots) for step in passes)
    return list(_waiting(Unkeyed(space), space.rows, space.columns, roots, together))


_Roots = tuple[tuple[Expr, ...], ...]
"""What each pass evaluates."""


@lru_cache(maxsize=2048)
def _waiting(
    holder: Unkeyed[RowSpace], rows: Size, columns: Size, passes: _Roots, together: bool
) -> tuple[Waiting, ...]:
    """The same: a search asks again for every vector."""
    space = holder.value
    uses: dict[int, list[int]] = {}
    loads: dict[int, Load] = {}
    for number, roots in enumerate(passes):
        for load in space.column_loads(roots):
            loads[load.serial] = load
            uses.setdefault(load.serial, []).append(number)
    several = {
        loads[serial].serial: numbers
        for serial, numbers in uses.items()
        if len(numbers) > 1 and differs_by_row(space, loads[serial])
    }
    if not several:
        return ()
    ways = _Ways(passes)
    found, gone = dict[int, Waiting](), set[int]()
    for serial, numbers in several.items():
        if serial not in gone:
            turns = tuple(_replacements(space, ways, loads[serial], numbers, together))
            others = [
                loads[other]
                for other, when in several.items()
                if together and other != serial and _goes_in(ways, loads[other], when, turns)
            ]
            gone.update(other.serial for other in others)
            found[serial] = Waiting(loads[serial], numbers[0], numbers[-1], turns, tuple(others))
    return tuple(wait for serial, wait in found.items() if serial not in gone)


class _Ways:
    """Through what passes use their loads."""

    def __init__(self, passes: _Roots) -> None:
        self.passes = passes
        self._in = [Dominators(roots) for roots in passes]
        self._from: dict[int, list[frozenset[Expr]]] = {}

    def from_on(self, number: int, load: Load) -> frozenset[Expr]:
        """What all uses of a load go through in a pass and all that follow; nothing where none has it."""
        if load.serial not in self._from:
            found = frozenset[Expr]()
            later = [found]
            for step in reversed(self._in):
                here = frozenset(step.of(load))
                found = found & here if found and here else found or here
                later.append(found)
            self._from[load.serial] = later[::-1]
        return self._from[load.serial][number]

    def kept_after(self, number: int, load: Load) -> list[Expr]:
        """What all uses go through in a pass, and all in the passes that follow, from below."""
        later = self.from_on(number + 1, load)
        return [part for part in self._in[number].of(load) if part in later]


def _goes_in(ways: _Ways, load: Load, numbers: list[int], turns: tuple[tuple[int, Expr], ...]) -> bool:
    """True where a load's first pass makes what all later uses of it go through."""
    for turn, part in turns:
        if turn == numbers[0]:
            return part in ways.from_on(turn, load)
    return False


def differs_by_row(space: RowSpace, load: Load) -> bool:
    """True when every row reads its own elements; one row's are its own."""
    row_part, _ = space.places(load)
    return space.rows.is_one or not row_part.is_constant or bool(load.lookups)


def _replacements(
    space: RowSpace, ways: _Ways, load: Load, numbers: list[int], together: bool
) -> Iterator[tuple[int, Expr]]:
    """What takes a load's place, pass by pass: a scaled score, and then its exponential."""
    for number in numbers[:-1]:
        others = space.column_loads(ways.passes[number]) if together else []
        # Also in the pass that loads it: where all loads are asked for at once, what it becomes takes its
        # place before the rest of the pass.
        for part in reversed(ways.kept_after(number, load)):
            if (
                isinstance(part, Apply)
                and part.dtype == load.dtype == "f32"
                and _only_from(space, part, load, others)
            ):
                yield number, part
                break


def _only_from(space: RowSpace, part: Expr, load: Load, others: Collection[Load]) -> bool:
    """True when ``part`` is made of ``load``, ``others``, places and what is one value a row."""
    varying = [leaf for leaf in leaves(part) if space.row_form(leaf) is None]
    seen = [leaf for leaf in varying if not isinstance(leaf, Index)]
    return load in seen and all(leaf is load or leaf in others for leaf in seen)
