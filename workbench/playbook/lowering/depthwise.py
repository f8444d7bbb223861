"""Depthwise convolutions, and others that mix a few channels: weighted sums of a channel's windows.

Owns how such a convolution, transposed or not, becomes one expression that neighbours can be fused with.
Returns False for what it does not cover: many channels a group, windows of many elements, transposed windows
that are dilated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product as every
from typing import TYPE_CHECKING

from workbench.model import OpNode, Ref, Sym
from workbench.playbook.graph.rewrites import DEPTHWISE
from workbench.playbook.ir.expr import Expr
from workbench.playbook.ir.operations import compute_type, is_float
from workbench.playbook.ir.sizes import ONE, ZERO, Size, number
from workbench.playbook.ir.stencil import Window
from workbench.playbook.ir.views import Axis, View, expanded, joined, merged, runs, sliced
from workbench.playbook.lowering import windows
from workbench.playbook.lowering.movement import looked_up

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering, Value

MOST_MIXED = 4
"""Channels that a group may read and write, where it reads several: each result reads all of them anew."""


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a convolution of few channels a group; False when it is none, or is to be left to the library."""
    conv = _read(lowering, node) if node.op == "aten.convolution.default" else None
    if conv is None:
        return False
    lowering.applied.add(DEPTHWISE)
    if DEPTHWISE in lowering.without:
        return False
    shape = lowering.sizes.shape(node.outs[0].dims)
    dtype = compute_type(node.outs[0].dtype)
    value = windows.input_of(lowering, node, lowering.value(node.args[0]), conv.windows)
    terms = _met_by if conv.transposed else _slid
    # Channel by channel at each place, so that a row of the window has its terms one after the other.
    channels = [terms(lowering, conv, value, j) for j in range(conv.mixed)]
    found = [term for at_a_place in zip(*channels, strict=True) for term in at_a_place]
    total = windows.total_of(lowering, found)
    if isinstance(node.args[2], Ref):
        bias = lowering.value(node.args[2])
        upright = type(bias)((ONE, *bias.shape, *(ONE for _ in conv.windows)), bias.dtype, bias.expr)
        along = lowering.cast(lowering.broadcast(upright, shape).expr, dtype)
        total = lowering.pool.apply("add", dtype, (total, along))
    windows.keep_result(lowering, node, total, None)
    return True


# ------------------------------------------------------------------------------------ what is asked


@dataclass(frozen=True)
class _Convolution:
    """One that mixes few channels."""

    weight: Value
    groups: Size
    mixed: int
    """Channels that a group reads."""
    made: Size
    """Channels that a group writes."""
    windows: tuple[Window, ...]
    """What each result sees; of a transposed one, as much of its input as meets its weights."""
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    paddings: tuple[int, ...]
    transposed: bool

    @property
    def results(self) -> Size:
        """Channels of the result."""
        return self.groups * self.made

    @property
    def outs(self) -> tuple[Size, ...]:
        """Results along the axes of a plane."""
        return tuple(window.out for window in self.windows)


def _read(lowering: Lowering, node: OpNode) -> _Convolution | None:
    """The convolution; None where many channels mix or windows are large or of unknown size."""
    x, weight, _, strides, paddings, dilations, transposed, _, count = node.args
    source, taps = lowering.value(x), lowering.value(weight)
    groups = lowering.sizes.read(count) if isinstance(count, int | Sym) else ONE
    kernel = tuple(size.number or 0 for size in taps.shape[2:])
    channels = source.shape[1]
    if not is_float(source.dtype) or 0 in kernel or not groups.divides(channels):
        return None
    mixed, first = channels // groups, taps.shape[0]
    if not transposed and not groups.divides(first):
        return None
    made = taps.shape[1] if transposed else first // groups
    grouped = len(kernel) == 1 or mixed.is_one or not groups.is_one
    if not (grouped and _few(mixed, made)) or (not transposed and taps.shape[1] != mixed):
        return None
    steps, sides, apart = (windows.per_axis(arg, len(kernel)) for arg in (strides, paddings, dilations))
    outs = lowering.sizes.shape(node.outs[0].dims)[2:]
    if transposed:
        if any(step > 1 for step in apart):
            return None
        meeting = (-(-count // step) for count, step in zip(kernel, steps, strict=True))
        seen = tuple(Window(n, 1, 0, 1, out) for n, out in zip(meeting, outs, strict=True))
    else:
        seen = tuple(map(Window, kernel, steps, sides, apart, outs))
    several = mixed.number or 1
    if windows.elements_of(seen) * several > windows.MOST_UNROLLED:
        return None
    return _Convolution(taps, groups, several, made, seen, kernel, steps, sides, bool(transposed))


def _few(mixed: Size, made: Size) -> bool:
    """True for a single channel, whatever is made of it, and for few of which few are made."""
    if mixed.is_one:
        return True
    return 0 < (mixed.number or 0) <= MOST_MIXED and 0 < (made.number or 0) <= MOST_MIXED


# ------------------------------------------------------------------------------------ windows that slide


def _slid(lowering: Lowering, conv: _Convolution, value: Value, j: int) -> Iterator[Expr]:
    """What channel ``j`` of every group adds: shifted slices times weights."""
    dtype = compute_type(value.dtype)
    wide = _channel(lowering, conv, value, j)
    places = windows.places_of(lowering, wide, conv.windows, lowering.pool.const(0.0, dtype))
    weight = _weights(lowering, conv, j)
    shape = (value.shape[0], conv.results, *conv.outs)
    for place, offsets in zip(places, windows.offsets_of(conv.windows), strict=True):
        factor = lowering.cast(_tap(lowering, weight, offsets, shape), dtype)
        yield lowering.pool.apply("mul", dtype, (lowering.cast(place, dtype), factor))


def _channel(lowering: Lowering, conv: _Convolution, value: Value, j: int) -> Value:
    """Channel ``j`` of every group, for each of the group's results."""
    batch, _, *plane = value.shape
    shape = (batch, conv.groups, number(conv.mixed), *plane)
    one = (batch, conv.groups, ONE, *plane)
    wider = (batch, conv.groups, conv.made, *plane)

    def change(view: View) -> View:
        return expanded(sliced(view, shape, 2, number(j), ONE, ONE), one, wider)

    whole = (batch, conv.results, *plane)
    return value if value.shape == whole and conv.mixed == 1 else lowering.through(value, change, whole)


def _weights(lowering: Lowering, conv: _Convolution, j: int) -> Value:
    """The windows of weights that results have for channel ``j`` of their group."""
    own = (number(conv.mixed), conv.made) if conv.transposed else (conv.made, number(conv.mixed))
    axis = 1 if conv.transposed else 2
    shape = (conv.groups, *own, *map(number, conv.kernel))

    def change(view: View) -> View:
        return sliced(view, shape, axis, number(j), ONE, ONE)

    return lowering.through(conv.weight, change, (conv.results, *map(number, conv.kernel)))


def _tap(lowering: Lowering, weight: Value, offsets: tuple[int, ...], shape: tuple[Size, ...]) -> Expr:
    """One element of every channel's window of weights, as the outputs see it."""
    seen = weight
    for axis, offset in enumerate(offsets, 1):
        cut = (*seen.shape[:axis], ONE, *seen.shape[axis + 1 :])
        seen = lowering.through(seen, _cut(seen.shape, axis, offset), cut)
    upright = type(weight)((ONE, weight.shape[0], *(ONE for _ in offsets)), weight.dtype, seen.expr)
    return lowering.broadcast(upright, shape).expr


def _cut(shape: tuple[Size, ...], axis: int, offset: int) -> Callable[[View], View]:
    """One index of an axis."""
    return lambda view: sliced(view, shape, axis, number(offset), ONE, ONE)


# ------------------------------------------------------------------------------------ transposed windows


def _met_by(lowering: Lowering, conv: _Convolution, value: Value, j: int) -> Iterator[Expr]:
    """What channel ``j`` of every group adds: of a stride's weights one meets each result.

    With (o + padding) = q stride + r, result o has x[q] w[r] + x[q - 1] w[r + stride] + ...
    """
    pool, dtype = lowering.pool, compute_type(value.dtype)
    batch, _, *plane = value.shape
    shape = (batch, conv.results, *conv.outs)
    wide, weight = _channel(lowering, conv, value, j), _weights(lowering, conv, j)
    flat = type(weight)((ONE, *weight.shape), weight.dtype, weight.expr)
    spread = lowering.broadcast(flat, (batch, *weight.shape))
    steps = [range(window.count) for window in conv.windows]
    for met in every(*steps):
        x, w, inside = wide, spread, list[Expr]()
        for axis, m in enumerate(met, 2):
            pair = _Pair(lowering, conv, axis, m)
            x = pair.looked_up(x, pair.place)
            w = pair.looked_up(w, pair.tap)
            inside += pair.tests(shape, plane[axis - 2])
        term = pool.apply("mul", dtype, (lowering.cast(x.expr, dtype), lowering.cast(w.expr, dtype)))
        both = inside[0]
        for test in inside[1:]:
            both = pool.apply("and", "bool", (both, test))
        yield pool.apply("select", dtype, (both, term, pool.const(0.0, dtype)))


@dataclass(frozen=True)
class _Pair:
    """An element along one axis of the input, and the weight it meets, as seen from a result."""

    lowering: Lowering
    conv: _Convolution
    axis: int
    m: int
    """Elements that lie between it and the nearest to the result."""

    @property
    def stride(self) -> int:
        return self.conv.strides[self.axis - 2]

    def _number(self, value: int) -> Expr:
        return self.lowering.pool.const(value, "i32")

    def _apply(self, op: str, left: Expr, right: int) -> Expr:
        return self.lowering.pool.apply(op, "i32", (left, self._number(right)))

    def _position(self, shape: tuple[Size, ...]) -> Expr:
        """A result's place along the axis, with the padding before it; ``shape`` has it already."""
        axes = tuple(Axis(n, ONE if i == self.axis else ZERO) for i, n in enumerate(shape))
        pool, padding = self.lowering.pool, self.conv.paddings[self.axis - 2]
        place = pool.apply("cast", "i32", (pool.index(merged(View(axes)), "i32"),))
        return self._apply("add", place, padding) if padding else place

    def place(self, shape: tuple[Size, ...]) -> Expr:
        """The element."""
        place = self._position(shape)
        quotient = place if self.stride == 1 else self._apply("div", place, self.stride)
        return self._apply("sub", quotient, self.m) if self.m else quotient

    def tap(self, shape: tuple[Size, ...]) -> Expr:
        """The weight."""
        if self.stride == 1:
            return self._number(self.m)
        rest = self._apply("fmod", self._position(shape), self.stride)
        return self._apply("add", rest, self.m * self.stride) if self.m else rest

    def tests(self, shape: tuple[Size, ...], size: Size) -> list[Expr]:
        """What must hold for both to be there."""
        pool, count = self.lowering.pool, self.conv.kernel[self.axis - 2]
        place = self.place(shape)
        found = [pool.apply("lt", "bool", (place, windows.integer(self.lowering, size)))]
        if self.m:
            found.append(pool.apply("ge", "bool", (place, self._number(0))))
        if (self.m + 1) * self.stride > count:
            found.append(pool.apply("lt", "bool", (self.tap(shape), self._number(count))))
        return found

    def looked_up(self, value: Value, index: Callable[[tuple[Size, ...]], Expr]) -> Value:
        """A tensor with the axis found by an index, for every result along it."""
        out = self.conv.outs[self.axis - 2]
        shape = (*value.shape[: self.axis], out, *value.shape[self.axis + 1 :])

        def change(view: View) -> View:
            parts = list(runs(view, value.shape))
            parts[self.axis] = (Axis(out, ZERO),)
            return joined(tuple(parts), view.offset)

        return type(value)(
            shape, value.dtype, looked_up(self.lowering, value, index(shape), self.axis, change)
        )
