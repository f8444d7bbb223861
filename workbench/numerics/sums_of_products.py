"""Sums of matrix products whose factors hold infinities: what they would be without.

Owns which results of a graph are linear in one matrix product, and their values with the infinities of its
factors taken for ones: where only the real sum is NaN, infinities of both signs met (linear.summed_products).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from workbench.model import Arg, OpNode, Ref
from workbench.numerics import linear, movement
from workbench.numerics.operators import argument, free_of_layout, operator
from workbench.numerics.tracked import Tracked, all_finite

_LINEAR = frozenset(("add", "sub", "rsub", "neg", "mul", "div", "sum", "mean"))


@dataclass
class SumsOfProducts:
    """What is known of one graph's products."""

    sizes: Mapping[str, int]
    tame: dict[str, Tensor | None] = field(default_factory=dict)
    """Matrix products, and what is made of one by scaling, shifting, moving and summing it: what they would
    be if the product's factors had no infinities; None where they have none."""
    behind: set[str] = field(default_factory=set)
    """What any matrix product goes into."""

    def seen(
        self, node: OpNode, result: Tracked | tuple[Tracked, ...], of: Callable[[Ref], Tracked]
    ) -> Tracked | tuple[Tracked, ...]:
        """Note a node; its result, which asks nothing of a sum where infinities of products met.

        ``of`` finds a result, or an input. It is not kept: who interprets a graph holds this, and values that
        refer to each other in a ring stay in memory after the last use.
        """
        if any(ref.ref in self.behind for ref in node.refs):
            self.behind.add(node.name)
        if not isinstance(result, Tracked) or not self._is_of_products(node):
            return result
        self.behind.add(node.name)
        tame = self.tame[node.name] = self._tamed(node, of)
        if tame is not None and node.base_name in ("sum", "mean"):
            return linear.summed_products(result, tame)
        return result

    def forget(self, name: str) -> None:
        """Let a value go."""
        self.tame.pop(name, None)

    def _is_of_products(self, node: OpNode) -> bool:
        """A matrix product, or linear in one: its other operands know nothing of any."""
        name = node.base_name
        if name in linear.PRODUCTS:
            return True
        behind = [ref.ref for ref in node.refs if ref.ref in self.behind]
        if len(behind) != 1 or behind[0] not in self.tame:
            return False
        if name == "div":  # nothing over a product, and nothing that is rounded, is linear in it
            return node.args[0] == Ref(ref=behind[0]) and len(node.args) == 2 and not node.kwargs
        return name in _LINEAR or name in movement.MOVES or name in movement.CASTS

    def _tamed(self, node: OpNode, of: Callable[[Ref], Tracked]) -> Tensor | None:
        """The node without infinities in a product's factors: what is NaN even so, is for another reason.

        None where there are none.
        """
        refs = node.refs
        known = [self.tame[ref.ref] for ref in refs if ref.ref in self.tame]
        is_product = node.base_name in linear.PRODUCTS
        if not is_product and (known[0] is None or node.base_name in movement.CASTS):
            return known[0]
        if all(one is None for one in known) and all(all_finite(of(ref).value) for ref in refs):
            return None

        def plain(arg: Arg) -> Any:
            if isinstance(arg, tuple):
                return [plain(item) for item in arg]
            if not isinstance(arg, Ref):
                return argument(arg, of, self.sizes)
            tame, value = self.tame.get(arg.ref), of(arg).value
            if tame is not None:
                return tame
            return value.nan_to_num(torch.nan, 1.0, -1.0) if is_product else value

        kwargs = {key: plain(value) for key, value in node.kwargs if key != "dtype"}
        made: Tensor = operator(free_of_layout(node.op))(*map(plain, node.args), **kwargs)
        return made
