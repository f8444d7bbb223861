"""Loops that were written out, found again: what one step computes, and what it hands on to the next.

Owns the comparison of steps. A loop in Python is exported as all of its steps; here those that are alike
become one, with how far each of its reads and writes moves from step to step. Never writes text:
loop_kernel.py does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from workbench.playbook.ir.expr import (
    Apply,
    Const,
    Expr,
    Index,
    Load,
    Reduction,
    always_below,
    unguarded,
    walk_all,
)
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.sizes import Size

LEAST_STEPS = 8
"""Below that all steps on one screen are easier to read than a loop."""
_MOST_BEFORE = 4
"""Steps that may differ from the rest at the beginning, where nothing has been handed on yet."""
_MOST_TIMES = 3
"""How often a step may do what looks alike, such as to move along each of its axes."""
_MOST_CHAINS = 3
_LOOKED_INTO = 2
"""How deep two values are compared to tell whether they may be the same of two steps."""


@dataclass(frozen=True)
class Carried:
    """A value that each step takes over from the step before."""

    first: Expr
    """What the first step of the loop takes; in the loop's body it stands for whatever is handed on."""
    later: Expr
    """What a step hands on in its place: a value of the step, or another that it was handed."""


@dataclass(frozen=True)
class Recurrence:
    """A kernel as steps before a loop, the loop, and what is left behind it."""

    before: tuple[Store, ...]
    stores: tuple[Store, ...]
    """Of the loop's first step."""
    steps: int
    """How often the loop goes round."""
    moved: Mapping[int, Size]
    """By serial of a load or an index of that step: how many elements further each step finds its own."""
    apart: tuple[Size, ...]
    """The same of each of ``stores``."""
    carried: tuple[Carried, ...]
    """Those whose ``later`` is another's ``first`` come before it: they are overwritten in this order."""
    after: tuple[Store, ...]
    """What is stored once, behind the loop."""
    left: Mapping[int, int]
    """By serial of a value that ``after`` reads of the last step: the number in ``carried`` that it is."""

    @property
    def own(self) -> tuple[Expr, ...]:
        """What a step evaluates in any case, not what it is handed: operands come before their operation."""
        handed = {one.first.serial for one in self.carried}
        found: dict[int, Expr] = {}
        stack = [expr for expr in self.values if expr.serial not in handed]
        while stack:
            expr = stack.pop()
            if expr.serial not in found:
                found[expr.serial] = expr
                stack.extend(below for below in always_below(expr) if below.serial not in handed)
        return tuple(found[serial] for serial in sorted(found))

    @property
    def values(self) -> tuple[Expr, ...]:
        """What a step computes."""
        return (*(store.value for store in self.stores), *(one.later for one in self.carried))


def recurrence_of(kernel: Kernel) -> Recurrence | None:
    """The loop that most of a kernel without rows was written out of; None where there is none."""
    stores = kernel.stores
    if kernel.tail or kernel.ahead or kernel.steps or any(store.level != "flat" for store in stores):
        return None
    roots = [store.value for store in stores]
    if any(isinstance(expr, Reduction) for expr in walk_all(roots)):
        return None
    for steps, others in _proposals(stores):
        reached = _reached(steps)
        for begin in range(min(_MOST_BEFORE, len(steps) - LEAST_STEPS) + 1):
            found = _Loop(steps, reached, begin).recurrence(others)
            if found is not None:
                return found
    return None


@dataclass(frozen=True)
class _Step:
    """What might be one step: its values, and those of them that are stored."""

    values: tuple[Expr, ...]
    stores: tuple[Store, ...] = ()


Steps = Sequence[_Step]


def _proposals(stores: Sequence[Store]) -> Iterator[tuple[Steps, tuple[Store, ...]]]:
    """What may be steps in their order, and the stores that are none of theirs."""
    if len(stores) >= LEAST_STEPS:
        groups = defaultdict[object, list[Store]](list)
        for store in stores:
            groups[store.buffer, store.view.axes].append(store)
        long = [group for group in groups.values() if len(group) >= LEAST_STEPS]
        others = tuple(store for group in groups.values() if group not in long for store in group)
        if long:
            count = min(map(len, long))
            for one in (_by_value, list, lambda group: group[::-1]):
                ordered = [one(group) for group in long]
                steps = [_step([group[len(group) - count + at] for group in ordered]) for at in range(count)]
                early = tuple(store for group in ordered for store in group[: len(group) - count])
                yield steps, (*others, *early)
            return
    alike = defaultdict[object, list[Expr]](list)
    for expr in walk_all([store.value for store in stores]):
        if isinstance(expr, Apply):
            alike[_look(expr, _LOOKED_INTO)].append(expr)
    chains = [chain for chain in alike.values() if len(chain) >= LEAST_STEPS]
    # What is left behind the loop ends last; a first step of its own makes its chain a little shorter.
    chains.sort(key=lambda one: -one[-1].serial)
    longest = max(map(len, chains), default=0)
    for times in range(1, _MOST_TIMES + 1):
        most = longest // times
        about = [chain for chain in chains if most - _MOST_BEFORE <= len(chain) <= most]
        for chain in about[:_MOST_CHAINS]:
            yield [_Step((expr,)) for expr in chain], tuple(stores)


def _by_value(group: list[Store]) -> list[Store]:
    return sorted(group, key=lambda store: store.value.serial)


def _step(stores: Sequence[Store]) -> _Step:
    return _Step(tuple(store.value for store in stores), tuple(stores))


def _look(expr: Expr, deep: int) -> object:
    """What an expression looks like from above, wherever it reads."""
    match expr:
        case Load(buffer=buffer, view=view):
            return buffer, view.axes
        case Const(value=value):
            return repr(value)
        case Apply(op=op, args=args):
            return (op, expr.dtype, *(_look(arg, deep - 1) for arg in args)) if deep else op
    return type(expr)


def _reached(steps: Steps) -> dict[int, int]:
    """By serial: the first step that needs a value."""
    found: dict[int, int] = {}
    for number, step in enumerate(steps):
        stack = list(step.values)
        while stack:
            expr = stack.pop()
            if expr.serial not in found:
                found[expr.serial] = number
                stack.extend(expr.operands)
    return found


class _Pair:
    """Two steps that follow one another, compared from their values down."""

    def __init__(self, steps: Steps, number: int, reached: Mapping[int, int]) -> None:
        self._number = number
        self._reached = reached
        self.image: dict[int, Expr] = {}
        """By serial of a value that the earlier step makes or reads: its like in the later one."""
        self.carried: dict[int, Expr] = {}
        """By serial of a value that the earlier step takes over: what the later one has in its place."""
        self.moved: dict[int, Size] = {}
        self.same: set[int] = set()
        self.known: dict[int, Expr] = {}
        """Every value of the earlier step that was met, by serial."""
        pairs = zip(steps[number].values, steps[number + 1].values, strict=True)
        self.is_alike = all(self._match(one, other) for one, other in pairs)
        self.is_alike = self.is_alike and not self.carried.keys() & (self.image.keys() | self.same)

    def _match(self, one: Expr, other: Expr) -> bool:
        self.known[one.serial] = one
        if one is other:
            self.same.add(one.serial)
            return True
        if one.dtype != other.dtype:
            return False
        before = self._reached[other.serial]
        if isinstance(other, Apply) and before <= self._number:
            return self.carried.setdefault(one.serial, other) is other
        if isinstance(other, Load) and before == self._number and not other.lookups:
            return self.carried.setdefault(one.serial, other) is other  # it is in a register already
        if one.serial in self.image:
            return self.image[one.serial] is other
        self.image[one.serial] = other
        return self._match_inside(one, other)

    def _match_inside(self, one: Expr, other: Expr) -> bool:
        match one, other:
            case Apply(op=op), Apply(op=like) if op == like and len(one.args) == len(other.args):
                return all(self._match(*args) for args in zip(one.args, other.args, strict=True))
            case Index(view=view), Index(view=further) if view.axes == further.axes:
                self.moved[one.serial] = further.offset + -view.offset
                return True
            case Load(buffer=buffer, view=view), Load(buffer=like, view=further) if buffer == like:
                self.moved[one.serial] = further.offset + -view.offset
                return view.axes == further.axes and self._match_lookups(one, other)
        return False

    def _match_lookups(self, one: Load, other: Load) -> bool:
        strides = [by for _, by in one.lookups] == [by for _, by in other.lookups]
        indices = zip(one.operands, other.operands, strict=False)
        return strides and all(self._match(*pair) for pair in indices)


class _Loop:
    """The comparison of all steps from ``begin`` on."""

    def __init__(self, steps: Steps, reached: Mapping[int, int], begin: int) -> None:
        self._steps = steps
        self._reached = reached
        self._begin = begin
        self._first = _Pair(steps, begin, reached)
        self._now = {s: self._first.known[s] for s in (*self._first.image, *self._first.carried)}
        """By serial of what the first step makes, reads or takes over: the same of the step at hand."""

    def recurrence(self, others: tuple[Store, ...]) -> Recurrence | None:
        """The loop, where all steps are alike."""
        if not self._is_alike():
            return None
        carried, apart = self._in_order(), self._apart()
        if not carried or apart is None:
            return None
        left = self._left(others, carried)
        if left is None:
            return None
        first = self._steps[self._begin]
        return Recurrence(
            before=tuple(store for step in self._steps[: self._begin] for store in step.stores),
            stores=first.stores,
            steps=len(self._steps) - self._begin,
            moved={serial: by for serial, by in self._first.moved.items() if not by.is_zero},
            apart=apart,
            carried=carried,
            after=others,
            left=left,
        )

    def _is_alike(self) -> bool:
        if not self._first.is_alike:
            return False
        if any(later.serial not in self._now for later in self._first.carried.values()):
            return False
        always = {expr.serial for expr in unguarded(*self._steps[self._begin].values)}
        if not always >= self._first.carried.keys():
            return False  # what is taken over would be computed where only a branch of a choice may
        if any(self._is_window(expr) for expr in self._first.known.values()):
            return False
        return all(self._goes_on(number) for number in range(self._begin, len(self._steps) - 1))

    def _is_window(self, expr: Expr) -> bool:
        """Whether neighbours read the same in other steps: windows have kernels of their own."""
        by = self._first.moved.get(expr.serial)
        if by is None or by.is_zero or not isinstance(expr, Load):
            return False
        return any(axis.stride in (by, -by) for axis in expr.view.axes)

    def _goes_on(self, number: int) -> bool:
        """Whether the next step does with its own what the second did with that of the first."""
        pair = self._first if number == self._begin else _Pair(self._steps, number, self._reached)
        first, now = self._first, self._now
        sizes = (len(pair.image), len(pair.carried)) == (len(first.image), len(first.carried))
        if not pair.is_alike or not sizes:
            return False
        if any(pair.moved.get(now[serial].serial) != by for serial, by in first.moved.items()):
            return False
        if any(
            pair.carried.get(now[serial].serial) is not now[later.serial]
            for serial, later in first.carried.items()
        ):
            return False
        image = {serial: pair.image.get(now[serial].serial) for serial in first.image}
        handed = {serial: pair.carried[now[serial].serial] for serial in first.carried}
        self._now = {serial: expr for serial, expr in image.items() if expr is not None} | handed
        return len(self._now) == len(now)

    def _in_order(self) -> tuple[Carried, ...]:
        """What is handed on, each overwritten after it was handed to another; empty for a ring of them."""
        left = dict(self._first.carried)
        found: list[Carried] = []
        while left:
            wanted = {later.serial for later in left.values()}
            free = [serial for serial in left if serial not in wanted]
            if not free:
                return ()
            found += [Carried(self._first.known[serial], left.pop(serial)) for serial in free]
        return tuple(found)

    def _apart(self) -> tuple[Size, ...] | None:
        """How far the steps' stores lie from one another; None where that differs."""
        columns = list(zip(*(step.stores for step in self._steps[self._begin :]), strict=True))
        found = []
        for column in columns:
            steps = {later.view.offset + -one.view.offset for one, later in pairwise(column)}
            if len(steps) > 1:
                return None
            found.append(steps.pop())
        return tuple(found)

    def _left(self, others: tuple[Store, ...], carried: tuple[Carried, ...]) -> dict[int, int] | None:
        """The carried values that ``others`` read behind the loop; None where they read another of its."""
        last = {self._now[one.later.serial].serial: number for number, one in enumerate(carried)}
        left: dict[int, int] = {}
        stack = [store.value for store in others]
        while stack:
            expr = stack.pop()
            if expr.serial in last:
                left[expr.serial] = last[expr.serial]
                continue
            step = self._reached.get(expr.serial, -1)
            inside = self._begin <= step < len(self._steps) - 1 and expr.serial not in self._first.same
            if isinstance(expr, Apply) and inside:
                return None
            stack.extend(expr.operands)
        return left
