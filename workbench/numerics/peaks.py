"""What is chosen among a tensor's own elements and compared with them: peaks of a map, the best of a row.

``x == max_pool(x)`` asks of each element whether it is the one that was chosen, and of a row that is cut off
at one of its own elements that one is compared with itself. However far a computed ``x`` may be off, the
chosen one is equal to itself: a kernel that makes it twice makes it the same way. Owns which comparisons ask
that, and where the answer is the same wherever the errors of ``x`` have put its elements.
Never says which index is right where several elements are as good, which choices.py does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from workbench.model import Arg, OpNode, Ref
from workbench.model.aten_names import CHOOSES
from workbench.numerics.movement import SAME_ORDER
from workbench.numerics.operators import free_of_layout, operator
from workbench.numerics.tracked import Tracked

DRAWS = 16
"""Of two elements that are as large as each other, either is the larger in all of them once in 60,000."""
_PICKS = CHOOSES | SAME_ORDER | {"expand", "sort", "topk", "kthvalue", "gather"}
"""First results whose elements are the first operand's: chosen, looked at again or put into an order."""
_WIDE = ("f32", "f64")
"""Of narrower types a kernel may keep what it has at hand unrounded, and what it wrote is rounded."""


@dataclass(frozen=True, eq=False)
class _Pick:
    """A node whose first result has elements of ``source``, and its other arguments as they were then."""

    node: OpNode
    source: Ref
    rest: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass
class Peaks:
    """Which results are elements of which others, as far as a graph has been walked."""

    _made: dict[str, _Pick] = field(default_factory=dict)

    def note(self, node: OpNode, read: Callable[[Arg], Any]) -> None:
        """Take a node in whose operands are there for ``read``: the places of a gather may go afterwards."""
        if node.base_name in _PICKS and node.args and isinstance(node.args[0], Ref):
            rest = tuple(read(arg) for arg in node.args[1:])
            self._made[node.name] = _Pick(node, node.args[0], rest, {k: read(v) for k, v in node.kwargs})

    def settled(self, node: OpNode, made: Tracked, known: Callable[[str], Tracked | None]) -> Tracked:
        """A comparison, without doubt about what is equal to itself."""
        one, other = node.args[:2]
        if not (isinstance(one, Ref) and isinstance(other, Ref)) or made.is_exact:
            return made
        root = self._root(one)
        of = known(root)
        if root != self._root(other) or of is None or of.dtype not in _WIDE:
            return made
        random = torch.Generator(of.value.device).manual_seed(0)
        itself = torch.ones(made.value.shape, dtype=torch.bool, device=made.value.device)
        for turn in range(DRAWS + 1):
            share = torch.rand(of.value.shape, generator=random, dtype=torch.float64, device=of.value.device)
            moved = of.value + of.error * (2 * share - 1) if turn else of.value
            itself &= self._again(one, root, moved) == self._again(other, root, moved)
        return _without(made, itself)

    def _root(self, ref: Ref) -> str:
        """The tensor whose elements a result has; a second result, as places of maxima, has nobody's."""
        while ref.ref in self._made and not ref.item:
            ref = self._made[ref.ref].source
        return ref.ref if not ref.item else f"{ref.ref}, {ref.item}"

    def _again(self, ref: Ref, root: str, moved: Tensor) -> Tensor:
        """A result, made of other values of the tensor whose elements it has."""
        if ref.ref == root:
            return moved
        pick = self._made[ref.ref]
        given = [arg.value if isinstance(arg, Tracked) else arg for arg in pick.rest]
        op = operator(free_of_layout(pick.node.op))
        made = op(self._again(pick.source, root, moved), *given, **pick.kwargs)
        found: Tensor = made[0] if isinstance(made, tuple | list) else made
        for place in (arg for arg in pick.rest if isinstance(arg, Tracked)):
            found = found.masked_fill(place.error > 0, torch.nan)  # another element: equal to none for sure
        return found


def _without(made: Tracked, where: Tensor) -> Tracked:
    """The same, exact at some places."""
    independent, shared = (torch.where(where, 0.0, part) for part in (made.independent, made.shared))
    step = made.step
    if step is not None:
        step = replace(step, down=torch.where(where, 0.0, step.down), up=torch.where(where, 0.0, step.up))
    return replace(made, independent=independent, shared=shared, step=step)
