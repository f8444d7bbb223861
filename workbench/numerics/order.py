"""What comes in an order that nobody promises: the places ``topk(..., sorted=False)`` finds, and what is made
of each of them.

Owns which outputs of a problem have the order of which choice, found by turning that order and looking which
outputs turn along, and how results are put into the order of the oracle's: all outputs that have one order by
one permutation, so that a weight stays with its index. Never decides whether they are right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from workbench.model import Graph, OpNode
from workbench.numerics.operators import argument
from workbench.numerics.running import Result, Running
from workbench.numerics.tracked import Tie, Tracked, exact

ALIKE = 1e-9
"""Of a result's largest element: sums of the same terms in another order, in float64."""


@dataclass(frozen=True, eq=False)
class Order:
    """Whose order an output has, from its first axes on."""

    choice: str
    shape: tuple[int, ...]
    """Of the indices that were chosen."""
    dim: int
    tie: Tie | None = None
    """Of the output that is these indices; None of what is made of them."""


def orders(
    graph: Graph, tensors: Mapping[str, Tensor], running: Running, outputs: Sequence[Tracked], keep: bool
) -> tuple[Order | None, ...]:
    """Of every output, given all as ``running`` interpreted them; None where the order is the reference's."""
    found: list[Order | None] = [None] * len(outputs)
    for node in graph.nodes:
        if not _is_unsorted(node):
            continue
        turned = _Turned(
            sizes=running.sizes,
            contract=running.contract,
            results=dict(running.results) if keep else {},
            constants=dict(running.constants),
            choice=node.name,
        )
        others = turned.outputs(graph, tensors, keep=keep)
        if turned.turn is None:
            continue
        for number, (one, other) in enumerate(zip(outputs, others, strict=True)):
            if found[number] is None and _turns_along(one.value, other.value, turned.turn, turned.dim):
                tie = one.tie if one.tie is not None and one.tie.shape == turned.turn.shape else None
                found[number] = Order(node.name, tuple(turned.turn.shape), turned.dim, tie)
    return tuple(found)


def in_order(
    results: Sequence[Tensor], expected: Sequence[Tensor], known: Sequence[Order | None]
) -> tuple[Tensor, ...]:
    """``results`` in the order of ``expected``, where theirs is nobody's; the others as they are.

    By the indices where they are an output, those that the oracle chose as well first; else by size.
    """
    placed = list(results)
    for choice in dict.fromkeys(one.choice for one in known if one is not None):
        those = [n for n, one in enumerate(known) if one is not None and one.choice == choice]
        where = _permutation([(results[n], expected[n], known[n]) for n in those])
        for number in those if where is not None else ():
            order = known[number]
            assert order is not None and where is not None
            if results[number].shape == expected[number].shape:
                placed[number] = _picked(results[number], where, order.dim)
    return tuple(placed)


# ------------------------------------------------------------------------------------ which outputs


def _is_unsorted(node: OpNode) -> bool:
    if node.base_name != "topk":
        return False
    return not (node.args[4] if len(node.args) > 4 else dict(node.kwargs).get("sorted", True))


@dataclass
class _Turned(Running):
    """A graph in which what one choice found comes in another order: every row of it turned.

    ``results`` that are there already are taken as they are, up to the choice.
    """

    choice: str = field(kw_only=True)
    turn: Tensor | None = None
    """Where each element came from; None where there is nothing to turn."""
    dim: int = 0
    behind: set[str] = field(default_factory=set)
    """What depends on the choice."""

    def apply(self, node: OpNode) -> Result:
        is_behind = any(ref.ref in self.behind for ref in node.refs)
        self.behind |= {node.name} if is_behind or node.name == self.choice else set()
        known = None if is_behind else self.results.get(node.name)
        made = super().apply(node) if known is None else known
        if node.name != self.choice or not isinstance(made, tuple):
            return made
        shape = made[0].value.shape
        given = node.args[2] if len(node.args) > 2 else dict(node.kwargs).get("dim", -1)
        self.dim = int(argument(given, self.of, self.sizes)) % max(len(shape), 1)
        if not shape or shape[self.dim] < 2 or not made[0].value.numel():
            return made
        self.turn = turn = _turn(shape, self.dim, made[0].value.device)
        return tuple(exact(_picked(one.value, turn, self.dim), one.dtype) for one in made)


def _turn(shape: torch.Size, dim: int, device: torch.device) -> Tensor:
    """Rows next to one another by another number of places each, none by all of them."""
    count = shape[dim]
    rows = torch.arange(shape.numel() // count, device=device)
    rows = rows.reshape([n for axis, n in enumerate(shape) if axis != dim])
    along = torch.arange(count, device=device)
    along = along.reshape([count if axis == dim else 1 for axis in range(len(shape))])
    return (along + 1 + rows.unsqueeze(dim) % (count - 1)) % count


def _turns_along(one: Tensor, other: Tensor, turn: Tensor, dim: int) -> bool:
    """False as well where the order does not matter, and where something else depends on it."""
    if one.shape != other.shape or not one.numel() or one.numel() % turn.numel():
        return False
    return not _alike(one, other) and _alike(_picked(one, turn, dim), other)


def _alike(one: Tensor, other: Tensor) -> bool:
    if not one.dtype.is_floating_point:
        return torch.equal(one, other)
    same = (one == other) | (one.isnan() & other.isnan())
    size = one.abs().nan_to_num(0.0, 0.0).max()
    return bool((same | ((one - other).abs() <= ALIKE * size)).all())


def _picked(values: Tensor, places: Tensor, dim: int) -> Tensor:
    """Each row's elements, or what lies behind each of them, from other places of the row."""
    rows = values.reshape(*places.shape, -1)
    return rows.gather(dim, places.unsqueeze(-1).expand(rows.shape)).reshape(values.shape)


# ------------------------------------------------------------------------------------ which permutation


def _permutation(those: Sequence[tuple[Tensor, Tensor, Order | None]]) -> Tensor | None:
    """Of one choice, from outputs with their expected values; None where nothing says."""
    for got, expected, order in those:
        if order is not None and order.tie is not None and got.shape == expected.shape:
            shape = order.shape
            found, wanted = got.reshape(shape).to(torch.int64), expected.reshape(shape).to(torch.int64)
            return _by_index(found, wanted, order.tie.source, order.dim)
    for got, expected, order in those:
        if (
            order is not None
            and got.shape == expected.shape
            and got.numel() == torch.Size(order.shape).numel()
        ):
            ranks = [one.reshape(order.shape).argsort(order.dim) for one in (expected, got)]
            return torch.empty_like(ranks[0]).scatter(order.dim, *ranks)
    return None


def _by_index(got: Tensor, expected: Tensor, source: Tensor, dim: int) -> Tensor:
    """What both chose comes to the same place; of the rest, the least to the place of the least."""
    count = got.shape[dim]
    inside = got.clamp(0, source.shape[dim] - 1)
    along = torch.arange(count, device=got.device)
    along = along.reshape([count if axis == dim else 1 for axis in range(got.dim())]).expand(got.shape)
    places = torch.full(source.shape, count, device=got.device).scatter(dim, expected, along)
    found = places.gather(dim, inside)
    taken = torch.zeros_like(torch.cat((found, found), dim)).scatter(dim, found, 1).narrow(dim, 0, count)
    ours = torch.where(taken > 0, along, count + _rank(source.gather(dim, expected), dim))
    theirs = torch.where(found < count, found, count + _rank(source.gather(dim, inside), dim))
    return torch.empty_like(ours).scatter(dim, ours.argsort(dim), theirs.argsort(dim))


def _rank(values: Tensor, dim: int) -> Tensor:
    return values.argsort(dim).argsort(dim)
