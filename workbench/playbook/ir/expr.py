"""Expression trees of a kernel: loads, indices, operations and reductions, each made once.

Owns the nodes and their sharing; equal expressions are the same object. Never prints anything.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

from workbench.model import DType
from workbench.playbook.ir.ranges import all_below
from workbench.playbook.ir.sizes import Size, Sizes
from workbench.playbook.ir.views import NotAView, View


@dataclass(frozen=True, eq=False)
class Expr:
    """A value at one index of a space. Compared by identity: ``Pool`` makes equal ones once."""

    dtype: DType
    serial: int = field(repr=False)
    """Order of creation; operands come before their operation."""

    @property
    def operands(self) -> tuple[Expr, ...]:
        return ()


@dataclass(frozen=True, eq=False)
class Const(Expr):
    """A number or, as text, an integer expression over size symbols."""

    value: bool | int | float | str


@dataclass(frozen=True, eq=False)
class Load(Expr):
    """An element of a buffer; ``lookups`` add computed offsets."""

    buffer: str
    view: View
    lookups: tuple[tuple[Expr, Size], ...] = ()
    """Computed indices, each with the stride in elements it is multiplied with."""

    @property
    def operands(self) -> tuple[Expr, ...]:
        return tuple(index for index, _ in self.lookups)


@dataclass(frozen=True, eq=False)
class Index(Expr):
    """The offset that a view gives, as a number: ``arange`` and its relatives."""

    view: View


@dataclass(frozen=True, eq=False)
class Apply(Expr):
    """An operation of the table in ops.py."""

    op: str
    args: tuple[Expr, ...]
    name: str = ""
    """Name of the graph node, for the text."""

    @property
    def operands(self) -> tuple[Expr, ...]:
        return self.args


@dataclass(frozen=True, eq=False)
class Reduction(Expr):
    """A value for every row: ``body`` over (rows, columns) reduced over the columns."""

    op: str
    body: Expr
    rows: View
    """Identity over the rows; carries their number."""
    columns: View
    """Identity over the columns; carries their number."""
    view: View
    """Which row an index of the space at hand finds."""
    key: int
    """Same for the same reduction seen through different views."""


MOST_CHOSEN = 4
"""Branches of what is looked up that are chosen by the place: the ends of a padded table and of a piece."""


@dataclass(frozen=True)
class Over:
    """What a space of rows and columns knows of expressions, by their serials: asked again and again."""

    row_forms: dict[int, Expr | None] = field(default_factory=dict)
    """The same value over the rows alone; None when it differs from column to column."""
    column_loads: dict[tuple[int, bool], tuple[Load, ...]] = field(default_factory=dict)
    """Loads below a root that differ from column to column, with those in branches of a choice or without."""
    row_parts: dict[int, tuple[Expr, ...]] = field(default_factory=dict)
    """Values a row that a root uses as they are."""
    places: dict[int, tuple[View, View]] = field(default_factory=dict)
    """Of a leaf's view what depends on the row, and what on the column."""


class Pool:
    """Makes expressions; asks for an equal one get the same object."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self._made: dict[tuple[object, ...], Expr] = {}
        self._over: dict[tuple[Size, Size], Over] = {}
        self._seen: dict[Hashable, dict[int, Expr]] = {}
        """By the kind of a change of views, and by serial, what expressions become."""

    def _keep(self, key: tuple[object, ...], make: Callable[[int], Expr]) -> Expr:
        if key not in self._made:
            self._made[key] = make(len(self._made))
        return self._made[key]

    def over(self, rows: Size, columns: Size) -> Over:
        """What has been found out about expressions over so many rows and columns."""
        return self._over.setdefault((rows, columns), Over())

    def const(self, value: bool | int | float | str, dtype: DType) -> Expr:
        return self._keep(("const", repr(value), dtype), lambda n: Const(dtype, n, value))

    def load(
        self, buffer: str, dtype: DType, view: View, lookups: tuple[tuple[Expr, Size], ...] = ()
    ) -> Expr:
        key = ("load", buffer, dtype, view, tuple((index.serial, stride) for index, stride in lookups))
        return self._keep(key, lambda n: Load(dtype, n, buffer, view, lookups))

    def index(self, view: View, dtype: DType) -> Expr:
        return self._keep(("index", view, dtype), lambda n: Index(dtype, n, view))

    def apply(self, op: str, dtype: DType, args: tuple[Expr, ...], name: str = "") -> Expr:
        if op == "select" and (inside := self._decided(args[0])) is not None:
            return args[1] if inside else args[2]
        match op, args:
            case "abs", (Apply(op="neg", dtype="f32" | "f64", args=negated),):
                args = negated
        key = ("apply", op, dtype, tuple(arg.serial for arg in args))
        return self._keep(key, lambda n: Apply(dtype, n, op, args, name))

    def _decided(self, condition: Expr) -> bool | None:
        """What a comparison of a place with a size comes to, where it is the same everywhere."""
        match condition:
            case Apply(op="lt", args=(Index(view=view), Const(value=int() | str() as bound))):
                return all_below(view, self.sizes.read(bound))
        return None

    def reduction(self, op: str, dtype: DType, body: Expr, rows: View, columns: View) -> Expr:
        key = ("reduction", op, dtype, body.serial, rows, columns)
        return self._keep(key, lambda n: Reduction(dtype, n, op, body, rows, columns, rows, n))

    def seen(self, reduction: Reduction, view: View) -> Expr:
        """The same reduction through another view."""
        if view == reduction.view:
            return reduction
        r = reduction
        if view == r.rows:
            return self.reduction(r.op, r.dtype, r.body, r.rows, r.columns)
        return self._keep(
            ("seen", r.key, view),
            lambda n: Reduction(r.dtype, n, r.op, r.body, r.rows, r.columns, view, r.key),
        )

    def mapped(
        self,
        root: Expr,
        replacement: Callable[[Expr], Expr | None],
        looked_up: Callable[[Expr], Expr | None] = lambda index: None,
        bodies: bool = False,
    ) -> Expr:
        """Rebuild ``root`` with ``replacement``'s answer wherever it has one, and in reductions' ``bodies``.

        Indices that loads look up are replaced by ``looked_up`` where it has an answer.
        """
        done: dict[int, Expr] = {}
        for expr in walk(root, into_reductions=bodies):
            new = replacement(expr)
            if new is None and isinstance(expr, Load) and expr.lookups:
                found = tuple((looked_up(index) or done[index.serial], by) for index, by in expr.lookups)
                new = self.load(expr.buffer, expr.dtype, expr.view, found)
            done[expr.serial] = new or self._rebuilt(expr, done, bodies)
        return done[root.serial]

    def respelt(self, root: Expr, op_of: Callable[[Apply], str], bodies: bool = False) -> Expr:
        """``root`` with other operations on the same operands, also in ``bodies`` of reductions."""
        done: dict[int, Expr] = {}
        for expr in walk(root, into_reductions=bodies):
            new = self._rebuilt(expr, done, bodies)
            if isinstance(expr, Apply) and isinstance(new, Apply) and op_of(expr) != expr.op:
                new = self.apply(op_of(expr), expr.dtype, new.args, expr.name)
            done[expr.serial] = new
        return done[root.serial]

    def through(self, root: Expr, change: Callable[[View], View], kind: Hashable = None) -> Expr:
        """``root`` over another space: every leaf's view changed.

        With a ``kind``, which is equal for equal changes alone, what was changed before is not gone through
        again: each step of a loop has all steps before it below it.
        """
        return self.all_through((root,), change, kind)[0]

    def all_through(
        self, roots: Sequence[Expr], change: Callable[[View], View], kind: Hashable = None
    ) -> list[Expr]:
        """The same of several roots: what they share is gone through once."""
        done = {} if kind is None else self._seen.setdefault(kind, {})
        for expr in walk_all(roots, known=done):
            done[expr.serial] = self._moved(expr, done, change)
        return [done[root.serial] for root in roots]

    def parts_through(
        self, root: Expr, change: Callable[[View], View], kind: Hashable = None
    ) -> dict[int, Expr]:
        """The same of everything below and including ``root``, by serial, but for what has no view there."""
        done = {} if kind is None else self._seen.setdefault(kind, {})
        found: dict[int, Expr] = {}
        for expr in walk(root):
            if expr.serial not in done and all(operand.serial in found for operand in expr.operands):
                with suppress(NotAView):
                    done[expr.serial] = self._moved(expr, done, change)
            if expr.serial in done:
                found[expr.serial] = done[expr.serial]
        return found

    def _moved(self, expr: Expr, done: dict[int, Expr], change: Callable[[View], View]) -> Expr:
        match expr:
            case Load(buffer=buffer, view=view, lookups=lookups):
                moved = tuple((done[index.serial], stride) for index, stride in lookups)
                return self.load(buffer, expr.dtype, change(view), moved)
            case Index(view=view):
                return self.index(change(view), expr.dtype)
            case Reduction(view=view):
                return self.seen(expr, change(view))
        return self._rebuilt(expr, done)

    def looked_up(
        self, root: Expr, index: Expr, stride: Callable[[View], Size], change: Callable[[View], View]
    ) -> Expr:
        """``root`` over another space, one of whose old axes is found by ``index``.

        Raises ``NotAView`` for reductions along that axis, and where more than ``MOST_CHOSEN`` branches are
        chosen by the place on it: with computed places, branches inside branches are spelled over and over.
        """
        chooses = self._chosen_along(root, stride) > MOST_CHOSEN
        done: dict[int, Expr] = {}
        for expr in walk(root):
            match expr:
                case Load(buffer=buffer, view=view, lookups=lookups):
                    step = stride(view)
                    moved = tuple((done[old.serial], by) for old, by in lookups)
                    if not step.is_zero:
                        moved = (*moved, (index, step))
                    new = self.load(buffer, expr.dtype, change(view), moved)
                case Index(view=view) if chooses and not stride(view).is_zero:
                    raise NotAView
                case Index(view=view):
                    new = self._further(change(view), expr.dtype, index, stride(view))
                case Reduction(view=view) if not stride(view).is_zero:
                    raise NotAView
                case Reduction(view=view):
                    new = self.seen(expr, change(view))
                case _:
                    new = self._rebuilt(expr, done)
            done[expr.serial] = new
        return done[root.serial]

    def _chosen_along(self, root: Expr, stride: Callable[[View], Size]) -> int:
        """Choices of a branch by the place on an axis."""
        by_place: set[int] = set()
        chosen = 0
        for expr in walk(root):
            along = isinstance(expr, Index) and not stride(expr.view).is_zero
            if along or any(operand.serial in by_place for operand in expr.operands):
                by_place.add(expr.serial)
            if isinstance(expr, Apply) and expr.op == "select" and expr.args[0].serial in by_place:
                chosen += 1
        return chosen

    def _further(self, view: View, dtype: DType, index: Expr, step: Size) -> Expr:
        """The place that a view gives, and ``index`` steps more."""
        if step.is_zero:
            return self.index(view, dtype)
        more = index if index.dtype == dtype else self.apply("cast", dtype, (index,))
        if not step.is_one:
            more = self.apply("mul", dtype, (more, self.const(step.dim, dtype)))
        if view.is_constant and view.offset.is_zero:
            return more
        return self.apply("add", dtype, (self.index(view, dtype), more))

    def _rebuilt(self, expr: Expr, done: dict[int, Expr], bodies: bool = False) -> Expr:
        match expr:
            case Apply(op=op, args=args, name=name):
                return self.apply(op, expr.dtype, tuple(done[arg.serial] for arg in args), name)
            case Load(buffer=buffer, view=view, lookups=lookups) if lookups:
                moved = tuple((done[index.serial], stride) for index, stride in lookups)
                return self.load(buffer, expr.dtype, view, moved)
            case Reduction(op=op, body=body, rows=rows, columns=columns, view=view) if bodies:
                new = done[body.serial]
                made = self.reduction(op, expr.dtype, new, rows, columns) if new is not body else expr
                return self.seen(made, view) if isinstance(made, Reduction) else made
            case _:
                return expr


@lru_cache(maxsize=4096)
def leaves(root: Expr) -> tuple[Load | Index | Reduction, ...]:
    """What ``root`` reads, each once; not what the bodies of its reductions read."""
    return tuple(expr for expr in walk(root) if isinstance(expr, (Load, Index, Reduction)))


def always_below(expr: Expr) -> tuple[Expr, ...]:
    """Operands that are evaluated in any case: of a choice only its condition."""
    return expr.operands[:1] if isinstance(expr, Apply) and expr.op == "select" else expr.operands


def unguarded(*roots: Expr, known: Container[int] = ()) -> Iterator[Expr]:
    """Like ``walk``, but not into the branches of a ``select``, which may only be evaluated when chosen.

    Nor below what is ``known``, by its serial.
    """
    seen: set[int] = set()
    stack = list(reversed(roots))
    while stack:
        expr = stack.pop()
        if expr.serial in seen:
            continue
        seen.add(expr.serial)
        yield expr
        if expr.serial not in known:
            stack.extend(always_below(expr))


def whichever_is_chosen(*roots: Expr) -> dict[int, Expr]:
    """By serial what ``unguarded`` has, and what both branches of a ``select`` do: nibbles of one byte."""
    return {serial: part for root in roots for serial, part in _chosen(root).items()}


@lru_cache(maxsize=4096)
def _chosen(root: Expr) -> dict[int, Expr]:
    """The same of one root; branches share what is below them, and a chain of choices would be 2^n ways."""
    found = {expr.serial: expr for expr in unguarded(root)}
    for expr in tuple(found.values()):
        if isinstance(expr, Apply) and expr.op == "select":
            one, other = (_chosen(branch) for branch in expr.args[1:])
            found.update({serial: part for serial, part in one.items() if serial in other})
    return found


def behind_conditions(roots: Sequence[Expr], known: Container[int]) -> list[Load]:
    """Loads that only C++ would skip: in any operand but the first of an ``and`` or ``or``, not looked up.

    Nothing below what is ``known``, by its serial, is needed.
    """
    found: dict[int, Load] = {}
    for expr in unguarded(*roots, known=known):
        if isinstance(expr, Apply) and expr.op in ("and", "or") and expr.serial not in known:
            below = unguarded(*expr.args[1:], known=known)
            found.update({one.serial: one for one in below if isinstance(one, Load) and not one.lookups})
    return [found[serial] for serial in sorted(found) if serial not in known]


def walk(root: Expr, into_reductions: bool = False) -> Iterator[Expr]:
    """Every expression below and including ``root``, operands first, each once."""
    return walk_all((root,), into_reductions)


def walk_all(
    roots: Sequence[Expr], into_reductions: bool = False, known: Container[int] = ()
) -> Iterator[Expr]:
    """The same of several roots: steps of a recurrence have all steps before below them.

    What is ``known``, by its serial, is left out, with what is below it alone.
    """
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        expr, ready = stack.pop()
        if ready:
            yield expr
        elif expr.serial not in seen and expr.serial not in known:
            seen.add(expr.serial)
            below = expr.operands
            if into_reductions and isinstance(expr, Reduction):
                below = (expr.body,)
            if not below:
                yield expr
                continue
            stack.append((expr, True))
            stack += [(operand, False) for operand in reversed(below) if operand.serial not in seen]


def loads_below(roots: Iterable[Expr]) -> list[Load]:
    """Every load that the roots need, those inside reductions too, each once, in the order they are met."""
    return list(_loads_below(tuple(roots)))


@lru_cache(maxsize=4096)
def _loads_below(roots: tuple[Expr, ...]) -> tuple[Load, ...]:
    """The same: a search asks again for every vector."""
    return tuple(expr for expr in walk_all(roots, into_reductions=True) if isinstance(expr, Load))
