"""Places that are computed in floating point, as interpolation does, in whole numbers instead.

Owns one rewrite of a kernel without rows. Doubling an image asks for place ``(x + 0.5) * 0.5 - 0.5`` of the
source, of which the whole part says where to read and the rest is a weight. While places are few enough
that every step of that is exact in float32, ``max(2 * x - 1, 0)`` has both: divided by 4 it is the place,
and what is left over is the weight in quarters. That takes no conversions of 64 bits, of which a
multiprocessor does 16 a cycle where it multiplies 128 times, and the compiler, which knows where in its
vector an element is, finds most weights by itself, and that neighbours read the same elements.

The numbers are the same to the last bit; where an axis is too long for that, nothing is changed.

So are places that are whole numbers of 64 bits to begin with, as those of padding that repeats the edge:
``min(max(x - 1, 0), W - 1)`` has one in 32, wherever ``x`` is an index that has.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from workbench.playbook.ir.expr import Apply, Const, Expr, Index, Pool, walk, walk_all
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.sizes import Size

MOST_EXACT = 2**18
"""Places of an axis up to which every step is exact, with the factors that are let through."""
_WHOLE_FLOAT = 2**24
"""Up to here float32 has every whole number."""
_ON_WHOLE = frozenset(["add", "sub", "smaller", "larger"])
"""What is done to whole parts before something is read there."""
_MOST_SHIFT = 6
"""Bits behind the point."""


@dataclass(frozen=True)
class _Place:
    """``(times * index + plus) / 2**shift``, or 0 where that is less and ``clipped``."""

    index: Expr
    times: int = 1
    plus: int = 0
    shift: int = 0
    clipped: bool = False

    @property
    def is_exact(self) -> bool:
        most = self.times * MOST_EXACT + abs(self.plus)
        return self.times > 0 and 0 <= self.shift <= _MOST_SHIFT and most < _WHOLE_FLOAT


@dataclass
class _Found:
    """What is known of expressions, by serial."""

    pool: Pool
    places: dict[int, _Place] = field(default_factory=dict)
    """Floating-point numbers."""
    whole: dict[int, Expr] = field(default_factory=dict)
    """Whole numbers of 64 bits, in 32."""
    steps: dict[int, int] = field(default_factory=dict)
    """Indices that are the same everywhere: numbers, small ones."""
    parts: dict[int, _Place] = field(default_factory=dict)
    """Whole parts of places, by the serial of what is in ``whole``."""
    floors: dict[int, _Place] = field(default_factory=dict)
    """The same, still in floating point, and rounded down where a place is negative."""
    rests: dict[int, Expr] = field(default_factory=dict)
    """What is left of a place without its whole part."""
    axes: dict[Size, None] = field(default_factory=dict)
    """Axes that must not be too long."""


def in_whole_numbers(pool: Pool, kernel: Kernel) -> tuple[Kernel, tuple[Size, ...]]:
    """The kernel with places as whole numbers, and the sizes that ``MOST_EXACT`` bounds: none if it is as it
    was. Only for indices of 32 bits."""
    if not any(isinstance(part, Index) for part in walk_all([store.value for store in kernel.stores])):
        return kernel, ()
    found = _Found(pool)
    stores = [replace(store, value=_rewritten(found, store)) for store in kernel.stores]
    if stores == list(kernel.stores):
        return kernel, ()
    return replace(kernel, stores=stores), tuple(found.axes)


def _rewritten(found: _Found, store: Store) -> Expr:
    for expr in walk(store.value):
        _note(found, expr)

    def other(expr: Expr) -> Expr | None:
        if expr.serial in found.rests:
            return found.rests[expr.serial]
        match expr:
            case Apply(op="cast", dtype="f32", args=(whole,)) if whole.serial in found.whole:
                return found.pool.apply("cast", "f32", (found.whole[whole.serial],))
            case Apply(dtype="i64") if expr.serial in found.whole:
                return found.pool.apply("cast", "i64", (found.whole[expr.serial],))
        return None

    return found.pool.mapped(store.value, other, lambda index: found.whole.get(index.serial))


def _note(found: _Found, expr: Expr) -> None:
    """What is known of an expression whose operands have been looked at."""
    match expr:
        case Index(dtype="i64" | "i32", view=view):
            counted = [axis for axis in view.axes if not axis.stride.is_zero]
            offset = view.offset.number
            if offset is None or abs(offset) > MOST_EXACT:
                return
            if not counted:
                found.steps[expr.serial] = offset
            elif len(counted) == 1 and counted[0].stride.is_one:
                found.whole[expr.serial] = found.pool.index(view, "i32")
        case Apply(op="cast", dtype="f32", args=(Index(view=view) as index,)) if (
            index.serial in found.whole and view.offset.is_zero
        ):
            found.axes.update((axis.size, None) for axis in view.axes if not axis.stride.is_zero)
            found.places[expr.serial] = _Place(found.whole[index.serial])
        case Apply(dtype="f32", args=(left, right)):
            _note_pair(found, expr, left, right)
        case Apply(op="floor", dtype="f32", args=(number,)) if number.serial in found.places:
            found.floors[expr.serial] = found.places[number.serial]
        case Apply(op="cast", dtype="i64", args=(number,)) if number.serial in found.places:
            _note_part(found, expr, found.places[number.serial])
        case Apply(op="cast", dtype="i64", args=(floor,)) if floor.serial in found.floors:
            _note_floor(found, expr, found.floors[floor.serial])
        case Apply(op=op, dtype="i64", args=(one, other)) if op in _ON_WHOLE:
            if op != "sub" and one.serial not in found.whole:
                one, other = other, one
            step = _step(found, op, other)
            if one.serial in found.whole and step is not None:
                if op == "add" and isinstance(step, int) and step < 0:
                    op, step = "sub", -step
                args = (found.whole[one.serial], found.pool.const(step, "i32"))
                found.whole[expr.serial] = found.pool.apply(op, "i32", args)


def _step(found: _Found, op: str, expr: Expr) -> int | str | None:
    """A number of which 32 bits have room for what comes of it, or an axis and a little, as text, for an end:
    an axis is as short as its tensor, which a product of several need not be."""
    value = expr.value if isinstance(expr, Const) else found.steps.get(expr.serial)
    if isinstance(value, str):
        size = found.pool.sizes.read(value)
        summands = size.terms or ((size.factors, size.coefficient),)
        axes = [factors for factors, _ in summands if factors]
        small = all(abs(times) <= (1 if factors else MOST_EXACT) for factors, times in summands)
        return value if op not in ("add", "sub") and small and [len(one) for one in axes] == [1] else None
    return value if isinstance(value, int) and abs(value) <= MOST_EXACT else None


def _note_pair(found: _Found, expr: Apply, left: Expr, right: Expr) -> None:
    """An operation on a place: another place, or what is left of it."""
    if expr.op in ("add", "mul") and isinstance(left, Const):
        left, right = right, left
    place = found.places.get(left.serial)
    match right:
        case Const(value=float() as number) if left.serial in found.rests:
            # Of a rest, which is never negative and less than one, nothing is cut off.
            if (expr.op, number) in (("larger", 0.0), ("smaller", 1.0)):
                found.rests[expr.serial] = found.rests[left.serial]
        case Const(value=float() as number) if place is not None:
            moved = _moved(place, expr.op, number)
            if moved is not None and moved.is_exact:
                found.places[expr.serial] = moved
        case Apply(op="cast", args=(whole,)) if expr.op == "sub" and place is not None:
            if found.parts.get(whole.serial) == place and place.shift:
                _note_rest(found, expr, place, "fmod")
        case Apply(op="floor") if expr.op == "sub" and place is not None:
            if found.floors.get(right.serial) == place and place.shift:
                _note_rest(found, expr, place, "remainder")


def _moved(place: _Place, op: str, number: float) -> _Place | None:
    """A place after an operation with a number; None where it is none."""
    if op == "larger":
        return replace(place, clipped=True) if number == 0 else None
    top, bottom = number.as_integer_ratio() if abs(number) < _WHOLE_FLOAT else (0, 1)
    shift = bottom.bit_length() - 1
    if op == "mul" and top > 0:
        return replace(place, times=place.times * top, plus=place.plus * top, shift=place.shift + shift)
    if op not in ("add", "sub") or place.clipped:
        return None
    more = max(0, shift - place.shift)
    plus = (place.plus << more) + (top << (place.shift + more - shift)) * (1 if op == "add" else -1)
    return replace(place, times=place.times << more, plus=plus, shift=place.shift + more)


def _note_part(found: _Found, expr: Expr, place: _Place) -> None:
    """The whole part of a place; what may be negative is rounded towards zero, and is left alone."""
    if not place.clipped and place.plus < 0:
        return
    found.parts[expr.serial] = place
    part, parts = _numerator(found.pool, place), found.pool.const(2**place.shift, "i32")
    found.whole[expr.serial] = found.pool.apply("div", "i32", (part, parts)) if place.shift else part


def _note_floor(found: _Found, expr: Expr, place: _Place) -> None:
    """The whole number below a place, which may be negative."""
    found.parts[expr.serial] = place
    part, parts = _numerator(found.pool, place), found.pool.const(2**place.shift, "i32")
    found.whole[expr.serial] = found.pool.apply("floordiv", "i32", (part, parts)) if place.shift else part


def _note_rest(found: _Found, expr: Expr, place: _Place, op: str) -> None:
    """What is left of a place: so many parts of one. The remainder ``op`` rounds as its whole part does."""
    pool = found.pool
    parts = pool.apply(op, "i32", (_numerator(pool, place), pool.const(2**place.shift, "i32")))
    rest = pool.apply(
        "mul", "f32", (pool.apply("cast", "f32", (parts,)), pool.const(0.5**place.shift, "f32"))
    )
    found.rests[expr.serial] = rest


def _numerator(pool: Pool, place: _Place) -> Expr:
    """Parts of a place, from 0 on."""
    found = place.index
    if place.times != 1:
        found = pool.apply("mul", "i32", (found, pool.const(place.times, "i32")))
    if place.plus:
        op = "add" if place.plus > 0 else "sub"
        found = pool.apply(op, "i32", (found, pool.const(abs(place.plus), "i32")))
    return pool.apply("larger", "i32", (found, pool.const(0, "i32"))) if place.clipped else found
