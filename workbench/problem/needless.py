"""Does the reference do work that its result does not need? Then a large factor would be an illusion.

Reads the op graph and owns three patterns: a matrix product that is only added up, most of a result thrown
away, steps that undo or repeat each other. Pure; says nothing about time. A value that the source computes
twice is not among them: the trace has merged it already.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from workbench.model import Dim, OpNode, Problem, Ref, size_of
from workbench.problem.components import reduced_axes

THROWN_AWAY = 4
"""A slice or selection that keeps less than one part in so many is worth a word."""
COSTLY = 2**16
"""Elements below which nobody minds."""
_PRODUCTS = ("aten.mm.default", "aten.bmm.default", "aten.addmm.default", "aten.baddbmm.default")
_SUMS = ("aten.sum.dim_IntList", "aten.mean.dim", "aten.sum.default", "aten.mean.default")
_LINEAR = frozenset(
    f"aten.{name}"
    for name in ("add.Tensor", "sub.Tensor", "mul.Scalar", "neg.default", "clone.default", "alias.default")
)
_SCALED = ("aten.mul.Tensor", "aten.div.Tensor")
_PARTS = ("aten.slice.Tensor", "aten.select.int", "aten.narrow.default")
_FOR_ONE = ("sort",)
"""What looks at all elements to say which is the third."""
_ONCE = ("aten.relu.default", "aten.abs.default", "aten.sign.default", "aten.floor.default")
_UNDONE = {
    "aten.neg.default": "aten.neg.default",
    "aten.log.default": "aten.exp.default",
    "aten.exp.default": "aten.log.default",
    "aten.sqrt.default": "aten.square.default",
}
_FREE = ("view", "permute", "expand", "slice", "select", "alias", "unsqueeze", "squeeze", "t", "transpose")


def needless_work(problem: Problem) -> tuple[str, ...]:
    """One sentence for each finding, for the person; none for most references."""
    found = _Found(problem)
    told = (*found.summed_products(), *found.thrown_away(), *found.undone())
    return tuple(f"the reference does needless work: {one}" for one in dict.fromkeys(told))


class _Found:
    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._nodes = {node.name: node for node in problem.graph.nodes}
        self._dims: dict[str, tuple[Dim, ...]] = {spec.name: spec.dims for spec in problem.tensors}
        self._dims |= {node.name: node.outs[0].dims for node in problem.graph.nodes}
        self._sizes: Mapping[str, int] = problem.cases[0].size_map
        self._users: dict[str, list[OpNode | None]] = {}
        for ref in problem.graph.outputs:
            self._users.setdefault(ref.ref, []).append(None)
        for node in problem.graph.nodes:
            for name in {ref.ref for ref in node.refs}:
                self._users.setdefault(name, []).append(node)

    def _count(self, name: str) -> int:
        return math.prod(size_of(dim, self._sizes) for dim in self._dims.get(name, ()))

    def _operand(self, node: OpNode) -> OpNode | None:
        first = node.args[0] if node.args else None
        return self._nodes.get(first.ref) if isinstance(first, Ref) else None

    # -------------------------------------------------------------------------- a product, added up

    def summed_products(self) -> Iterator[str]:
        """``sum(A @ B)``: the sum can go inside, and the product is gone where nobody else reads it."""
        for node in self._problem.graph.nodes:
            operand = self._operand(node)
            if node.op not in _SUMS or operand is None:
                continue
            product = self._product_below(operand, operand.outs[0].dims)
            if product is None or self._count(product.name) < COSTLY or not self._is_only_summed(product):
                continue
            before = self._multiplications_of(product)
            after = sum(self._count(arg.ref) for arg in product.args if isinstance(arg, Ref))
            if before > 2 * after:
                yield (
                    f"{_at(node)}a matrix product is only added up; with the sum taken first, "
                    f"{after:.2g} multiplications do what {before:.2g} do now. A factor that comes from "
                    f"there, up to {before / after:.0f}, is the reference's and no merit of a kernel"
                )

    def _product_below(self, node: OpNode, dims: tuple[Dim, ...]) -> OpNode | None:
        """The product whose elements are only scaled, shifted and summed; shapes stay the same on the way."""
        if node.outs[0].dims != dims:
            return None
        if node.op in _PRODUCTS:
            return node
        if not self._is_linear(node):
            return None
        below = (self._nodes.get(arg.ref) for arg in node.args if isinstance(arg, Ref))
        products = (self._product_below(one, dims) for one in below if one is not None)
        return next((one for one in products if one is not None), None)

    def _is_only_summed(self, node: OpNode) -> bool:
        """True where no more is read of a product than sums over its rows or columns, scaled and shifted."""
        return all(
            user is not None
            and (
                _sums_an_operand_away(user, len(node.outs[0].dims))
                or (
                    self._is_linear(user)
                    and user.outs[0].dims == node.outs[0].dims
                    and self._is_only_summed(user)
                )
            )
            for user in self._users.get(node.name, [])
        )

    def _is_linear(self, node: OpNode) -> bool:
        scaled = node.op in _SCALED and len(node.args) > 1 and not isinstance(node.args[1], Ref)
        return scaled or node.op in _LINEAR

    def _multiplications_of(self, product: OpNode) -> int:
        left = product.args[-2]
        width = self._dims[left.ref][-1] if isinstance(left, Ref) else 1
        return self._count(product.name) * size_of(width, self._sizes)

    # -------------------------------------------------------------------------- most of it not used

    def thrown_away(self) -> Iterator[str]:
        """A small part of a large result, and nobody uses the rest."""
        for node in self._problem.graph.nodes:
            whole = self._operand(node)
            if node.op not in _PARTS or whole is None or len(self._users[whole.name]) > 1:
                continue
            if _is_free(whole) or whole.base_name in _FOR_ONE:
                continue
            kept, made = self._count(node.name), self._count(whole.name)
            if made >= COSTLY and made > THROWN_AWAY * kept:
                yield f"{_at(node)}{made} elements are computed and {kept} of them are used"

    # -------------------------------------------------------------------------- for nothing

    def undone(self) -> Iterator[str]:
        """Steps that the one before made idle."""
        for node in self._problem.graph.nodes:
            below = self._operand(node)
            if below is None or self._count(node.name) < COSTLY:
                continue
            if node.op in _ONCE and below.op == node.op:
                yield f"{_at(node)}{node.base_name} of {node.base_name} changes nothing"
            elif _UNDONE.get(node.op) == below.op:
                yield f"{_at(node)}{node.base_name} undoes the {below.base_name} before it"


def _sums_an_operand_away(node: OpNode, axes: int) -> bool:
    """True for a sum over rows or columns of products; one over their batch alone saves nothing."""
    return node.op in _SUMS and any(axis >= axes - 2 for axis in reduced_axes(node, axes))


def _is_free(node: OpNode) -> bool:
    return node.base_name in _FREE


def _at(node: OpNode) -> str:
    return f"line {node.line}: " if node.line else ""
