"""Logarithms of sums of exponentials: they move by no more than what they are made of does.

``log(sum(exp(x - c))) + c`` is the same for every ``c``, and moving all of ``x`` by no more than e moves it
by no more than e. Operation by operation an error of ``x`` would count three times, once in ``c``, which is
the largest of ``x``, and twice in the difference: over the steps of a lattice 3 to the power of their number.
Owns which results are such logarithms, as torch or a person spells them, and their bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from workbench.model import Arg, OpNode, Ref
from workbench.numerics.movement import SAME_ORDER
from workbench.numerics.tracked import Tracked, exact

_FAR = 60.0
"""Below the largest exponent: what lies there adds less than e to the minus 60 to a sum of at least 1."""
_LOOKS = SAME_ORDER | {"expand"}
_STEPS = frozenset(("sub", "exp", "sum", "log"))
Again = Callable[[Sequence[OpNode], Mapping[str, Tracked]], Tracked | None]
"""Some nodes once more, of other values than they had."""


@dataclass
class LogSums:
    """Which results are parts of such a logarithm, as far as a graph has been walked."""

    _made: dict[str, OpNode] = field(default_factory=dict)

    def note(self, node: OpNode) -> None:
        """Take a node in."""
        if node.base_name in _STEPS | _LOOKS and node.args and isinstance(node.args[0], Ref):
            self._made[node.name] = node

    def settled(
        self, node: OpNode, made: Tracked, known: Callable[[str], Tracked | None], again: Again
    ) -> Tracked:
        """An addition, with no more error than ``x`` has and what is rounded on the way from it."""
        if node.base_name != "add" or node.kwargs or len(node.args) != 2 or made.is_exact:
            return made
        found = self._below(*node.args) or self._below(*reversed(node.args))
        if found is None:
            return made
        nodes, source, shift, total = found
        x, c = known(source), known(shift)
        if x is None or c is None or x.is_exact:
            return made
        own = again([*nodes, node], {source: exact(x.value, x.dtype), shift: exact(c.value, c.dtype)})
        dims = total.args[1] if len(total.args) > 1 else ()
        axes = [axis for axis in dims if isinstance(axis, int)] if isinstance(dims, tuple) else []
        error = x.error.expand(x.value.shape)
        largest = (x.value - error).amax(axes, keepdim=True)  # of no axes: over all
        is_there = x.value + error >= largest - _FAR
        passed = torch.where(is_there, error, 0.0).amax(axes)
        if own is None or passed.numel() != made.value.numel():
            return made
        most = passed.reshape(made.value.shape) + own.error
        further = made.error > most
        independent = torch.where(further, 0.0, made.independent)
        shared = torch.where(further, most, made.shared)
        step = made.step
        if step is not None:
            step = replace(step, down=torch.minimum(step.down, most), up=torch.minimum(step.up, most))
        return Tracked(made.value, independent, shared, made.dtype, step=step, span=made.span)

    def _below(self, of: Arg, beside: Arg) -> tuple[list[OpNode], str, str, OpNode] | None:
        """What ``of`` is made of, if it is the logarithm of a sum of exponentials less ``beside``: the nodes,
        the tensor and the shift that they begin at, and the sum."""
        nodes: list[OpNode] = []
        steps: dict[str, OpNode] = {}
        for wanted in ("log", "sum", "exp", "sub"):
            looked = self._seen_through(of, nodes)
            step = self._made.get(looked.ref) if looked is not None else None
            if step is None or step.base_name != wanted or step.kwargs:
                return None
            nodes.insert(0, step)
            of, steps[wanted] = step.args[0], step
        if len(steps["sub"].args) != 2 or not isinstance(of, Ref):
            return None
        looks: list[OpNode] = []
        shift, again = self._seen_through(steps["sub"].args[1], looks), self._seen_through(beside, looks)
        if shift is None or shift != again or shift.item or of.item or shift == of:
            return None
        return [*looks, *nodes], of.ref, shift.ref, steps["sum"]

    def _seen_through(self, arg: Arg, nodes: list[OpNode]) -> Ref | None:
        """The tensor that views show, with the views put before ``nodes``."""
        while isinstance(arg, Ref) and not arg.item:
            made = self._made.get(arg.ref)
            if made is None or made.base_name not in _LOOKS:
                return arg
            nodes.insert(0, made)
            arg = made.args[0]
        return None
