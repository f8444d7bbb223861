"""Text that says where the weights of a convolution lie: ordinary ones by term, transposed ones turned about.

Owns expressions of places in a group's weights; kernels around them know channels, kinds and taps by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.playbook.kernels.seen_places import SeenPlaces


@dataclass(frozen=True)
class SeenWeights:
    """The weights of a convolution whose sides are ``sides``."""

    sides: SeenPlaces

    @property
    def taps(self) -> int:
        """Weights of a pair of channels."""
        return math.prod(side.taps for side in self.sides.made.sides)

    def turned(self, known: bool) -> str:
        """What follows the number of a pair of channels, in the place of a transposed convolution's weight.

        ``known`` where the kind of places is, by name; else the place itself is.
        """
        if self.taps == 1:
            return ""
        if self.sides.phases == 1:
            return f" * {self.taps} + {self.taps - 1} - tap"
        within = ""
        for name, side in self.sides.named:
            over = self.sides.over(name, side) if known else self.sides.over_of(name, side)
            own = self.sides.weight(name, side, over)
            within = f"({within}) * {side.side.taps} + {own}" if within else own
        return f" * {self.taps} + {within}"

    def is_tap(self) -> str:
        """A condition more where some kinds of places meet fewer taps than others."""
        code = ""
        for name, side in self.sides.named:
            if side.phases > 1 and not side.all_taps:
                own = self.sides.weight(name, side, self.sides.over(name, side))
                code += f" && {own} < {side.side.taps}"
        return code

    def channel_and_tap(self, term: str) -> list[str]:
        """A statement that finds a term's channel, and which of its taps it is."""
        taps = self.sides.taps
        if taps == 1:
            return [f"const int channel = {term};"]
        return [f"const int channel = {term} / {taps}, tap = {term} % {taps};"]
