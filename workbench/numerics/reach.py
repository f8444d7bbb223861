"""How far results moved in some draws of rounding, and what an honest kernel is allowed for it.

Owns that reading of draws; coarser.py makes them for a whole graph, recurrences.py within one operation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

COARSER = 8
"""Times an honest rounding: three bits."""
ON_TOP = 4
"""Standard deviations of honest roundings that come on top of what has turned over."""


@dataclass(frozen=True, eq=False)
class Reach:
    """How far one output moves, elementwise; inf where some draw leaves the range of a dtype."""

    far: Tensor
    """At most, in all draws, and no less than is usual."""
    usual: Tensor
    """Root mean square over the draws of some line through the element, the largest of these."""

    @property
    def allowed(self) -> Tensor:
        """What an honest kernel may be off by, beside storing it.

        Half of what is usual is added. A softmax that turned over completely in some draws moved as far as it
        can, and so it does in an honest kernel, whose other roundings, an eighth of these, come on top.
        """
        return self.far + ON_TOP / COARSER * self.usual


def farthest(moves: Tensor) -> Reach:
    """Of draws along the first axis; no less than what is usual along any other, as one element may have been
    lucky in all of them."""
    most = moves.amax(0)
    squares = moves.square().mean(0)
    usual = squares.mean().sqrt().expand_as(most)
    for axis in range(squares.dim()):
        usual = torch.maximum(usual, squares.mean(axis, keepdim=True).sqrt())
    return Reach(torch.maximum(most, usual), usual)
