"""How far results move where arithmetic is a few bits coarser, in some draws.

A running error takes every rounding for the worst there is, and that of a row for one that all products with
it add up alike: each matrix product multiplies it by the root of its terms, and behind three of them in 16
bits it is as large as the result. What rounding does is less by hundreds. So where the running error says
little, the graph is computed again, with every result rounded ``COARSER`` times as far as it may be and
somewhere at random: the Monte Carlo arithmetic of Parker, Pierce and Eggert, "Monte Carlo arithmetic: how to
gamble with floating point and win", Computing in Science & Engineering 2(4), 2000. Coarser, not as it is: a
softmax of large scores that turns over for the error of an honest kernel turns over here in many draws.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from workbench.model import Arg, Graph, OpNode, Ref
from workbench.numerics.dtypes import UNIT, accumulate_unit, is_float
from workbench.numerics.movement import MOVES
from workbench.numerics.running import Result, Running
from workbench.numerics.steps import STEPS
from workbench.numerics.tracked import Tracked, deviation, exact, narrowing

COARSER = 8
"""Times an honest rounding: three bits."""
DRAWS = 16
"""Of a result that turns over in every second draw, all agree once in thirty thousand."""


@dataclass
class Coarser(Running):
    """One draw: every result lies where rounding may have put it, and the next is made of that."""

    chance: random.Random = field(default_factory=lambda: random.Random(0))

    def _apply(self, node: OpNode) -> Result:
        result = super()._apply(node)
        if node.op.split(".")[1] in MOVES:
            return result
        if isinstance(result, tuple):
            return tuple(self._moved(one) for one in result)
        return self._moved(result)

    def _moved(self, made: Tracked) -> Tracked:
        if not is_float(made.dtype):
            return made
        value, error = made.value, made.error
        if not bool(error.any()):
            return exact(value, made.dtype)
        stored = narrowing(value, made.dtype)
        moved = value + COARSER * self._share(value) * (error - stored).clamp_min(0.0)
        if UNIT[made.dtype] > accumulate_unit(made.dtype):
            moved = self._on_a_grid(moved, made)
        # Beyond the dtype's range the reference has an infinity: nobody knows what comes of it.
        moved = torch.where(error.isinf(), torch.nan, torch.where(error > 0, moved, value))
        return exact(torch.where(torch.isfinite(value), moved, value), made.dtype)

    def _share(self, value: Tensor) -> Tensor:
        """Of the error of each element: half of it of its own, half as all others have it (an intrinsic that
        is too large everywhere, sums that are cut off)."""
        generator = torch.Generator(value.device).manual_seed(self.chance.getrandbits(62))
        own = torch.rand(value.shape, generator=generator, dtype=torch.float64, device=value.device)
        return own - 0.5 + 0.5 * self.chance.uniform(-1.0, 1.0) * value.sign()

    def _on_a_grid(self, value: Tensor, made: Tracked) -> Tensor:
        """Rounded to the dtype less three bits, on a grid that lies anywhere: equal values stay equal, as
        they do wherever they are rounded."""
        to = self.chance.uniform(0.5, 1.0)
        fraction, exponent = torch.frexp(value * to)
        steps = 1 / (UNIT[made.dtype] * COARSER)
        return torch.ldexp((fraction * steps).round() / steps, exponent) / to


def reach(graph: Graph, tensors: Mapping[str, Tensor], still: Running) -> tuple[Tensor, ...] | None:
    """How far each element of each output moves at most, in ``DRAWS`` draws, or what is usual in its line.

    ``still`` has been through the graph with these tensors. Inf where some draw leaves the range of a dtype;
    None where one carries a value over an edge, as others may go the other way.
    """
    values = tuple(map(still.of, graph.outputs))
    edges = _at_edges(graph)
    found: list[list[Tensor]] = [[] for _ in values]
    for number in range(DRAWS):
        draw = Coarser(sizes=still.sizes, contract=still.contract, chance=random.Random(number))
        for moves, own, moved in zip(found, values, draw.outputs(graph, tensors), strict=True):
            moves.append(deviation(own.value, moved.value).nan_to_num(torch.inf, torch.inf))
        if any(bool(deviation(still.of(ref).value, draw.of(ref).value).any()) for ref in edges):
            return None
    return tuple(_farthest(torch.stack(moves)) for moves in found)


def _at_edges(graph: Graph) -> list[Ref]:
    """Results that jump where what they are made of passes an edge, and that something is made of."""
    used = dict.fromkeys(graph.outputs)
    for node in graph.nodes:
        used.update(dict.fromkeys(_refs((*node.args, *(value for _, value in node.kwargs)))))
    nodes = {node.name: node for node in graph.nodes}
    return [ref for ref in used if ref.ref in nodes and _jumps(nodes[ref.ref], ref.item or 0)]


def _jumps(node: OpNode, item: int) -> bool:
    return node.op.split(".")[1] in STEPS or not is_float(node.outs[item].dtype)


def _refs(args: tuple[Arg, ...]) -> Iterator[Ref]:
    for arg in args:
        if isinstance(arg, Ref):
            yield arg
        elif isinstance(arg, tuple):
            yield from _refs(arg)


def _farthest(moves: Tensor) -> Tensor:
    """Of draws along the first axis; no less than what is usual along any other, as one element may have been
    lucky in all of them."""
    most = moves.amax(0)
    squares = moves.square().mean(0)
    usual = squares.mean().sqrt().expand_as(most)
    for axis in range(squares.dim()):
        usual = torch.maximum(usual, squares.mean(axis, keepdim=True).sqrt())
    return torch.maximum(most, usual)
