"""Values that are read at several places of their own row, step after step: which of them are worth keeping.

Owns the choice, made on the op graph: a butterfly, a step of a bitonic sort or of a sum by doubling reads two
elements of what the step before has made. Written into one expression, eight such steps read 256 elements for
each result. Kept between steps, a value is read where it is needed; analysis/row_steps.py says whether it can
wait on the chip. Never lowers anything, and knows no step by name: it counts the ways a value is looked at,
and follows rows through operations that leave them where they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.model import Arg, OpNode, Problem, refs_in
from workbench.playbook.analysis.apart import gathered
from workbench.playbook.analysis.placement import identity
from workbench.playbook.ir.expr import Expr, Pool, Reduction, leaves, loads_below
from workbench.playbook.ir.operations import is_pointwise
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.sizes import ONE, Size, Sizes, product

_MOST_BETWEEN = 8
"""Elements that a thread has between two exchanges, where it has all that are made of one another."""
_MOST_WAYS = 64
_LEAST_STEPS = 2
"""Kept values from which on a chain is one."""
_AS_IT_LIES = frozenset(["aten.view.default", "aten.alias.default", "aten.clone.default"])
_ALONG = {
    "aten.slice.Tensor": 1, "aten.select.int": 1, "aten.flip.default": 1, "prims.rev.default": 1,
    "aten.index_select.default": 1, "aten.gather.default": 1, "aten.cat.default": 1, "aten.stack.default": 1,
    "aten.unbind.int": 1, "aten.split_with_sizes.default": 2, "aten.constant_pad_nd.default": 1,
}  # fmt: skip
"""Operations that move elements along axes, and which argument names these."""
_REPEATS = "aten.expand.default"
_JOINS = frozenset(["aten.cat.default", "aten.stack.default"])
_WRITTEN_FIRST = frozenset(f"aten.{op}.default" for op in ("mm", "bmm", "addmm", "_addmm_activation"))
"""Library calls that read a tensor from memory: nothing is fused into them."""


@dataclass(frozen=True)
class KeptRows:
    """Results that are kept, each with the ways it is looked at, and the rows that none of them leaves."""

    rows: Size
    ways: dict[str, int]

    def wanted(self, pool: Pool, name: str, expr: Expr, count: Size) -> bool:
        """True for a value that the next step should read rather than make again.

        A thread may make what several steps come to, as long as it needs all that it reads for that.
        """
        if name not in self.ways or any(isinstance(leaf, Reduction) for leaf in leaves(expr)):
            return False
        kernel = gathered(pool, Kernel([Store(name, expr, identity(count), ONE, count, "flat")]))
        read = len(loads_below(store.value for store in kernel.stores))
        results = len(kernel.stores)
        return read > results or results * self.ways[name] > _MOST_BETWEEN


def kept_rows(problem: Problem, sizes: Sizes) -> KeptRows | None:
    """What a problem's graph would have kept, and of which rows; None for graphs without such a chain."""
    return _Graph(problem, sizes).kept()


class _Graph:
    def __init__(self, problem: Problem, sizes: Sizes) -> None:
        self._nodes = problem.graph.nodes
        self._shapes = {spec.name: sizes.shape(spec.dims) for spec in problem.tensors}
        self._by_name = {node.name: node for node in self._nodes}
        self._users: dict[str, list[OpNode]] = defaultdict(list)
        for node in self._nodes:
            self._shapes[node.name] = sizes.shape(node.outs[0].dims)
            for name in dict.fromkeys(ref.ref for ref in node.refs):
                self._users[name].append(node)
        self._made = [
            node.name
            for node in self._nodes
            if is_pointwise(node) or (node.op in _JOINS and len(set(self._sources(node.name))) > 1)
        ]

    def kept(self) -> KeptRows | None:
        """Of the longest leading axes that the most values keep to."""
        ways = {name: len(set(self._ways(name))) for name in [*self._shapes]}
        steps = [name for name in self._made if ways[name] > 1]
        if len(steps) < _LEAST_STEPS:
            return None
        shape = self._shapes[steps[0]]
        found = [self._within(product(shape[:last]), ways) for last in range(len(shape) - 1, 0, -1)]
        best = max(found, key=lambda one: len(one.ways), default=None)
        return best if best is not None and self._steps(best) >= _LEAST_STEPS else None

    def _steps(self, kept: KeptRows) -> int:
        return sum(name in kept.ways for name in self._made)

    def _within(self, rows: Size, ways: dict[str, int]) -> KeptRows:
        """Values whose rows stay where they are until something is written to memory."""
        stays = dict[str, bool]()
        for name in [*(node.name for node in reversed(self._nodes)), *self._shapes]:
            if name not in stays:
                users = self._users[name]
                stays[name] = all(self._keeps(user, name, rows, stays) for user in users)
        able = {
            name: count
            for name, count in ways.items()
            if count > 1 and stays[name] and _leading(self._shapes[name], rows) is not None
        }
        made = set(self._made)
        given = {name for name in able if not any(node.name == name for node in self._nodes)}
        return KeptRows(rows, {name: able[name] for name in able if name in made | given})

    def _keeps(self, user: OpNode, name: str, rows: Size, stays: dict[str, bool]) -> bool:
        """True where each row of ``name`` is a row of the result, or of a tensor in memory."""
        if user.op in _WRITTEN_FIRST:
            return True
        before, after = self._shapes[name], self._shapes[user.name]
        first, then = _leading(before, rows), _leading(after, rows)
        if first is None or then is None or not stays.get(user.name, False):
            return False
        if self._still(user, name):
            return True
        if is_pointwise(user) or user.op == _REPEATS:
            return len(after) - then == len(before) - first
        if user.op == "aten.permute.default":
            order = user.args[1]
            return isinstance(order, tuple) and order[:first] == tuple(range(first))
        return all(axis >= first for axis in self._axes(user, before)) and user.op in _ALONG

    def _still(self, user: OpNode, name: str) -> bool:
        """True for what leaves every element in its place: a slice of all there is, too."""
        whole = user.op == "aten.slice.Tensor" and self._shapes[name] == self._shapes[user.name]
        return whole or user.op in _AS_IT_LIES

    def _sources(self, name: str) -> Iterator[str]:
        """What a value's elements are taken from: a tensor that is rolled is read once, at another place."""
        node = self._by_name.get(name)
        if node is None or not (_moves(node) or node.op in _JOINS):
            yield name
            return
        for ref in refs_in(node.args[:1]):
            yield from self._sources(ref.ref)

    def _axes(self, user: OpNode, shape: tuple[Size, ...]) -> Iterator[int]:
        """Axes along which an operation of ``_ALONG`` moves elements."""
        at = _ALONG.get(user.op, 1)
        named: Arg = user.args[at] if len(user.args) > at else 0
        if user.op == "aten.constant_pad_nd.default":
            sides = named if isinstance(named, tuple) else ()
            named = tuple(range(len(shape) - len(sides) // 2, len(shape)))
        count = len(shape) + (user.op == "aten.stack.default")
        for axis in named if isinstance(named, tuple) else (named,):
            yield axis % count if isinstance(axis, int) else -1

    def _ways(self, name: str) -> Iterator[tuple[str, ...]]:
        """How what computes looks at a value: the movements between them, without those that move nothing."""
        waiting: list[tuple[str, tuple[str, ...]]] = [(name, ())]
        for _ in range(_MOST_WAYS):
            if not waiting:
                return
            at, way = waiting.pop()
            for user in self._users[at]:
                whole, *others = [ref for ref in user.refs if ref.ref == at]
                way = way if whole.item is None else (*way, str(whole.item))
                if not _moves(user) or whole is not user.args[0] or others:
                    yield way
                elif user.op in _AS_IT_LIES or (
                    self._shapes[at] == self._shapes[user.name] and "slice" in user.op
                ):
                    waiting.append((user.name, way))
                else:
                    waiting.append((user.name, (*way, f"{user.op}{user.args[1:]}")))


def _moves(node: OpNode) -> bool:
    """True for one tensor seen in another way, which computes nothing."""
    seen = node.op in _AS_IT_LIES or node.op in _ALONG or node.op in ("aten.permute.default", _REPEATS)
    return seen and node.op not in _JOINS


def _leading(shape: tuple[Size, ...], rows: Size) -> int | None:
    """How many leading axes the rows are; None where they are not all of some."""
    return next((last for last in range(1, len(shape) + 1) if product(shape[:last]) == rows), None)
