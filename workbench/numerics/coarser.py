"""How far results move where arithmetic is a few bits coarser, in some draws.

A running error takes every rounding for the worst there is, and that of a row for one that all products with
it add up alike: each matrix product multiplies it by the root of its terms, and behind three of them in 16
bits it is as large as the result. What rounding does is less by hundreds. So where the running error says
little, the graph is computed again, with every result rounded ``COARSER`` times as far as it may be and
somewhere at random: the Monte Carlo arithmetic of Parker, Pierce and Eggert, "Monte Carlo arithmetic: how to
gamble with floating point and win", Computing in Science & Engineering 2(4), 2000. Coarser, not as it is: a
softmax of large scores that turns over for the error of an honest kernel turns over here in many draws.

How far each operation rounds is found once, where its operands are what they should be, and a draw only
computes values: several of them side by side, along a first axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from workbench.model import Graph, OpNode, Ref, size_of
from workbench.numerics.dtypes import UNIT, accumulate_unit, is_float
from workbench.numerics.movement import CASTS, MOVES
from workbench.numerics.operators import argument, free_of_layout, last_read, operator
from workbench.numerics.pointwise import POINTWISE
from workbench.numerics.reach import COARSER, Reach, farthest
from workbench.numerics.running import Result, Running
from workbench.numerics.steps import STEPS
from workbench.numerics.tracked import LARGEST, Tracked, deviation, exact, narrowing

DRAWS = 16
"""Of a result that turns over in every second draw, all agree once in thirty thousand."""
AT_ONCE, AT_ONCE_ON_A_CARD = 2**23, 2**28
"""Elements of results that are wanted at the same time, of the draws that are made side by side."""
HELD, HELD_ON_A_CARD = 2**28, 2**31
"""The same of draws that are made in one walk through the graph: 2 and 16 GB."""
HARDLY = 1e-200
"""An error that is none, and yet keeps its value from being taken for one that nobody rounded."""
ALIKE = 1e-9
"""Of a result's largest element: two ways of computing it in float64."""


@dataclass(frozen=True, eq=False)
class _Rounding:
    """How far one result may be moved."""

    still: Tensor
    amount: Tensor
    """At most, elementwise, beside what storing it takes; NaN where nothing is known of it."""
    rounds: Tensor | None
    """Where it is stored in a narrower dtype than it is computed in."""
    unit: float
    largest: float
    """Magnitude beyond which the reference has an infinity; inf where no element is near."""


@dataclass
class _Local(Running):
    """What each operation rounds by itself, and whether its values can be had without its rule."""

    still: Running = field(kw_only=True)
    roundings: dict[str, tuple[_Rounding | None, ...]] = field(default_factory=dict)
    """Of each node's results; None where one is as exact as its operands."""
    plain: set[str] = field(default_factory=set)

    def apply(self, node: OpNode) -> Result:
        made = super().apply(node)
        parts = made if isinstance(made, tuple) else (made,)
        moves = node.base_name in MOVES
        self.roundings[node.name] = tuple(None if moves else _rounding(part) for part in parts)
        if _agrees(node, lambda ref: self.of(ref).value, self.sizes, parts):
            self.plain.add(node.name)
        known = self.still.results[node.name]
        again = tuple(map(_hardly_off, known if isinstance(known, tuple) else (known,)))
        return again if isinstance(made, tuple) else again[0]

    def forget(self, names: Iterable[str]) -> None:
        """See ``Running``."""
        super().forget(names)
        for name in names:
            self.roundings.pop(name, None)


def _hardly_off(known: Tracked) -> Tracked:
    if known.is_exact or not is_float(known.dtype):
        return exact(known.value, known.dtype)
    # Of two numbers alone torch.where makes float32, which has nothing as small as this.
    off = (known.error > 0).to(torch.float64) * HARDLY
    return Tracked(known.value, off, torch.zeros_like(off), known.dtype)


def _rounding(made: Tracked) -> _Rounding | None:
    if not is_float(made.dtype) or not bool((made.error > HARDLY).any()):
        return None
    value, error = made.value, made.error
    narrow = UNIT[made.dtype] > accumulate_unit(made.dtype)
    amount = COARSER * (error - narrowing(value, made.dtype)).clamp_min(0.0)
    # Beyond the dtype's range the reference has an infinity: nobody knows what comes of it.
    amount = torch.where(error.isinf(), torch.nan, torch.where(torch.isfinite(value), amount, 0.0))
    most = LARGEST[made.dtype]
    near = bool(value.abs().nan_to_num(0.0, 0.0).max() > most / 16)
    rounds = (error > HARDLY) & torch.isfinite(value) if narrow else None
    return _Rounding(value, amount, rounds, UNIT[made.dtype], most if near else torch.inf)


def _agrees(
    node: OpNode, given: Callable[[Ref], Tensor], sizes: Mapping[str, int], parts: tuple[Tracked, ...]
) -> bool:
    """True where the operator alone, in float64, computes what its rule does."""
    if node.base_name in MOVES:
        return True
    try:
        values = _plainly(node, given, sizes)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return False
    return len(values) == len(parts) and all(map(_alike, values, (part.value for part in parts)))


def _alike(one: Tensor, other: Tensor) -> bool:
    if (one.shape, one.dtype, one.device) != (other.shape, other.dtype, other.device):
        return False
    if torch.equal(one, other):
        return True
    if one.dtype != torch.float64:
        return False
    same = (one == other) | (one.isnan() & other.isnan())
    off = torch.where(same, 0.0, (one - other).abs())
    size = other.abs().nan_to_num(0.0, 0.0)
    return not one.numel() or bool(off.max() <= ALIKE * size.max())  # not where only one is a NaN


def _plainly(node: OpNode, given: Callable[[Ref], Tensor], sizes: Mapping[str, int]) -> tuple[Tensor, ...]:
    """The operator on float64 values."""
    args = [argument(arg, given, sizes) for arg in node.args]
    if node.base_name in CASTS and is_float(node.outs[0].dtype):
        return (args[0].to(torch.float64),)
    kwargs = {name: argument(arg, given, sizes) for name, arg in node.kwargs if name != "dtype"}
    made = operator(free_of_layout(node.op))(*args, **kwargs)
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


@dataclass
class _Alone(Running):
    """Of one operation, on any values."""

    given: Callable[[Ref], Tracked] = field(kw_only=True)

    def of(self, ref: Ref) -> Tracked:
        return self.given(ref)


@dataclass
class _Draws:
    """Draws side by side: each result lies where rounding may have put it, and the next is made of that."""

    local: _Local
    count: int
    generator: torch.Generator
    moved: dict[str, tuple[Tensor | None, ...]] = field(default_factory=dict)
    """Results that are not as they should be: a value a draw, along the first axis."""

    def of(self, ref: Ref) -> Tensor | None:
        """None where it is the same in every draw."""
        return self.moved[ref.ref][ref.item or 0] if ref.ref in self.moved else None

    def passed(self, ref: Ref) -> bool:
        """True where a value lies elsewhere than it should in some draw."""
        moved = self.of(ref)
        return moved is not None and bool(deviation(self.local.still.of(ref).value, moved).any())

    def apart(self, ref: Ref) -> Tensor:
        """How far a result lies from where it should, a draw after the other; inf where it is no number."""
        own, moved = self.local.still.of(ref).value, self.of(ref)
        if moved is None:
            return torch.zeros((self.count, *own.shape), dtype=torch.float64, device=own.device)
        return deviation(own, moved).nan_to_num(torch.inf, torch.inf)

    def forget(self, names: Iterable[str]) -> None:
        """Let results go."""
        for name in names:
            self.moved.pop(name, None)

    def apply(self, node: OpNode) -> None:
        """The node's results in every draw."""
        values: tuple[Tensor | None, ...] = (None,) * len(node.outs)
        if any(self.of(ref) is not None for ref in node.refs):
            values = self._together(node) or self._one_by_one(node)
        pairs = zip(values, self.local.roundings[node.name], strict=True)
        made = tuple(value if how is None else self._rounded(how, value) for value, how in pairs)
        if any(value is not None for value in made):
            self.moved[node.name] = made

    def _together(self, node: OpNode) -> tuple[Tensor, ...]:
        """All draws in one call, where elements do not know of each other; empty where they do.

        A tensor without axes may have to be one: ``masked_fill`` takes no other.
        """
        moved = [one for ref in node.refs if (one := self.of(ref)) is not None]
        known = node.base_name in POINTWISE and node.name in self.local.plain
        if not known or any(one.dim() == 1 for one in moved):
            return ()
        rank = len(node.outs[0].dims)

        def given(ref: Ref) -> Tensor:
            moved = self.of(ref)
            if moved is None:
                return self.local.of(ref).value
            return moved.reshape(self.count, *[1] * (rank + 1 - moved.dim()), *moved.shape[1:])

        return _plainly(node, given, self.local.sizes)

    def _one_by_one(self, node: OpNode) -> tuple[Tensor, ...]:
        draws = [self._computed(node, number) for number in range(self.count)]
        return tuple(map(torch.stack, zip(*draws, strict=True)))

    def _computed(self, node: OpNode, number: int) -> tuple[Tensor, ...]:
        """The node's results in one draw."""

        def given(ref: Ref) -> Tensor:
            moved = self.of(ref)
            return self.local.of(ref).value if moved is None else moved[number]

        if node.name in self.local.plain:
            return _plainly(node, given, self.local.sizes)
        alone = _Alone(
            self.local.sizes,
            self.local.contract,
            constants=self.local.constants,
            given=lambda ref: exact(given(ref), self.local.of(ref).dtype),
        )
        made = alone.apply(node)
        return tuple(part.value for part in (made if isinstance(made, tuple) else (made,)))

    def _rounded(self, rounding: _Rounding, value: Tensor | None) -> Tensor:
        """Half of the error of each element is its own, half as all others have it (an intrinsic that is too
        large everywhere, sums that are cut off)."""
        still, shape = rounding.still, (self.count, *[1] * rounding.still.dim())
        common, grid = (self._drawn((self.count,)).view(shape) for _ in range(2))
        share = self._drawn((self.count, *still.shape)) - 0.5 + (common - 0.5) * still.sign()
        moved = (still if value is None else value) + rounding.amount * share
        if rounding.rounds is not None:
            stored = _on_a_grid(moved, 0.5 + 0.5 * grid, rounding.unit)
            moved = torch.where(rounding.rounds, stored, moved)
        if rounding.largest < torch.inf:
            moved = torch.where(torch.isfinite(still) & (moved.abs() > rounding.largest), torch.nan, moved)
        return moved

    def _drawn(self, shape: tuple[int, ...]) -> Tensor:
        device = self.generator.device
        return torch.rand(shape, generator=self.generator, dtype=torch.float64, device=device)


def _on_a_grid(value: Tensor, to: Tensor, unit: float) -> Tensor:
    """Rounded to a dtype less three bits, on a grid that lies anywhere: equal values stay equal, as they do
    wherever they are rounded."""
    fraction, exponent = torch.frexp(value * to)
    steps = 1 / (unit * COARSER)
    return torch.ldexp((fraction * steps).round() / steps, exponent) / to


def reach(graph: Graph, tensors: Mapping[str, Tensor], still: Running) -> tuple[Reach, ...] | None:
    """How far each element of each output moves in ``DRAWS`` draws.

    ``still`` has been through the graph with these tensors. What it did not keep is computed again, and goes
    again: a deep network takes the memory of what it has at once. None where a draw carries a value over an
    edge, as others may go the other way. Where there is no room for so many draws at once, fewer are made;
    raises ``OutOfMemoryError`` where there is none for one.
    """
    on_card = still.device.type != "cpu"
    together, held = (AT_ONCE_ON_A_CARD, HELD_ON_A_CARD) if on_card else (AT_ONCE, HELD)
    moving = max(1, most_at_once(graph, still.sizes))
    found: list[list[Tensor]] = [[] for _ in graph.outputs]
    left = DRAWS
    while left:
        now = min(left, max(1, held // moving))
        moves = _tried(graph, tensors, still, _parts(left, now, max(1, together // moving)))
        if moves is None:
            return None
        if not moves:
            held = moving * (now // 2)
            together = min(together, held)
            torch.cuda.empty_cache()
            continue
        for mine, more in zip(found, moves, strict=True):
            mine += more
        left -= now
    return tuple(farthest(torch.cat(moves)) for moves in found)


def _tried(
    graph: Graph, tensors: Mapping[str, Tensor], still: Running, parts: list[tuple[int, int]]
) -> list[list[Tensor]] | None:
    """The same as ``_walked``; empty where there is no room for several draws."""
    try:
        return _walked(graph, tensors, still, parts)
    except torch.OutOfMemoryError:
        if sum(count for _, count in parts) == 1:
            raise
        return []


def _parts(first: int, count: int, most: int) -> list[tuple[int, int]]:
    """Draws in parts of ``most`` and fewer: a seed and how many."""
    return [(first - at, min(most, count - at)) for at in range(0, count, most)]


def _walked(
    graph: Graph, tensors: Mapping[str, Tensor], still: Running, parts: list[tuple[int, int]]
) -> list[list[Tensor]] | None:
    """Of each output, how far it lies from where it should in each part; None where one passed an edge."""
    kept = all(node.name in still.results for node in graph.nodes)
    known = still if kept else Running(still.sizes, still.contract)
    local = _Local(still.sizes, still.contract, still=known)
    draws = [_Draws(local, count, torch.Generator(still.device).manual_seed(seed)) for seed, count in parts]
    edges, going = _at_edges(graph), last_read(graph)
    local.begin(tensors)
    if not kept:
        known.begin(tensors)
    for node in graph.nodes:
        if not kept:
            known.step(node)
        local.step(node)
        with torch.no_grad():
            for one in draws:
                one.apply(node)
        if any(one.passed(ref) for ref in edges if ref.ref == node.name for one in draws):
            return None
        names = going.get(node.name, ())
        local.forget(names)
        for one in draws:
            one.forget(names)
        if not kept:
            known.forget(names)
    return [[one.apart(ref) for one in draws] for ref in graph.outputs]


def most_at_once(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Elements that are wanted at the same time, of results that a draw may have another value of.

    A weight that is only transposed is none of them.
    """
    going, counts = last_read(graph), dict[str, int]()
    now = most = 0
    for node in graph.nodes:
        moved = any(ref.ref in counts for ref in node.refs)
        if moved or node.base_name not in MOVES:
            counts[node.name] = sum(prod(size_of(dim, sizes) for dim in out.dims) for out in node.outs)
            now += counts[node.name]
            most = max(most, now)
        now -= sum(counts.get(name, 0) for name in going.get(node.name, ()))
    return most


def _at_edges(graph: Graph) -> list[Ref]:
    """Results that jump where what they are made of passes an edge, and that something is made of."""
    used = dict.fromkeys(graph.outputs)
    for node in graph.nodes:
        used.update(dict.fromkeys(node.refs))
    nodes = {node.name: node for node in graph.nodes}
    return [ref for ref in used if ref.ref in nodes and _jumps(nodes[ref.ref], ref.item or 0)]


def _jumps(node: OpNode, item: int) -> bool:
    return node.base_name in STEPS or not is_float(node.outs[item].dtype)
