"""Text that says what a place of a convolution's result sees of the input: elements, and taps that meet them.

Owns names and expressions of sides; convolution_product.py has the kernel around them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from workbench.playbook.analysis.places import Places, places_of
from workbench.playbook.ir.program import Convolution
from workbench.playbook.ir.sizes import Size
from workbench.playbook.kernels.convolution_pieces import shifted
from workbench.playbook.kernels.kernel_text import block
from workbench.playbook.text.scope import statement

NAMES = ("depth", "row", "col")
_WORD = 32
"""Taps that have a bit each in a word."""


@dataclass(frozen=True)
class SeenPlaces:
    """The sides of a convolution, the outermost first."""

    made: Convolution
    size: Callable[[Size], str]
    """The text of a size in the kernel."""

    @property
    def named(self) -> list[tuple[str, Places]]:
        """Sides with their names."""
        sides = [places_of(self.made, side) for side in self.made.sides]
        return list(zip(NAMES[-len(sides) :], sides, strict=True))

    @property
    def taps(self) -> int:
        """That a place meets at most."""
        return math.prod(side.taps for _, side in self.named)

    @property
    def phases(self) -> int:
        """Kinds of places."""
        return math.prod(side.phases for _, side in self.named)

    @property
    def may_miss(self) -> list[tuple[str, Places]]:
        """Sides along which a tap may meet no element."""
        return [(name, side) for name, side in self.named if side.may_miss]

    # -------------------------------------------------------------------------------- kinds of places

    def kind(self, number: str) -> list[str]:
        """Statements that find a kind of places by its number: the first place, and its lowest tap."""
        lines, inner = list[str](), 1
        for name, side in reversed(self.named):
            if side.phases == 1:
                continue
            code = number if inner == 1 else f"{number} / {inner}"
            lines.append(f"const int kind_{name} = {code} % {side.phases};")
            inner *= side.phases
        return lines

    def first_place(self, name: str, side: Places) -> str:
        """The place of a result, by ``place`` among those of its kind, along the innermost side left."""
        code = f"place % {self.size(side.made)}"
        return code if side.phases == 1 else f"{code} * {side.phases} + kind_{name}"

    def lowest(self, side: Places, over: str) -> str:
        """The lowest tap that a place meets, by how far it is from where tap 0 meets the first element."""
        code = f"{over} % {side.phases}"
        return code if side.inverse == 1 else f"{code} * {side.inverse} % {side.phases}"

    def over(self, name: str, side: Places) -> str:
        """How far the first place of its kind is from there."""
        code = shifted(f"kind_{name}", side.side.padding)
        return f"({code})" if side.side.padding else code

    def seen_first(self, name: str, side: Places, place: str) -> str:
        """The first element that a place sees along a side, by its number among those of its kind."""
        if side.phases == 1:
            return shifted(place if side.step == 1 else f"{place} * {side.step}", -side.padding)
        return shifted(f"{place} + {self._ahead(side, self.over(name, side))}", -self._reach(side))

    def seen_anyhow(self, name: str, side: Places) -> str:
        """The same of a place whose kind is not known, by its number among all."""
        if side.phases == 1:
            return shifted(name if side.step == 1 else f"{name} * {side.step}", -side.padding)
        return shifted(self._ahead(side, self.over_of(name, side)), -self._reach(side))

    def over_of(self, name: str, side: Places) -> str:
        """How far a place is from where the first tap meets the first element."""
        return f"({name} + {side.side.padding})" if side.side.padding else name

    def _ahead(self, side: Places, over: str) -> str:
        """The element that the lowest tap meets."""
        dilation = side.side.dilation
        if dilation == 1:
            return f"{over} / {side.phases}"
        times = f"{self.lowest(side, over)} * {dilation}"
        return f"({over} - {times}) / {side.phases}"

    def _reach(self, side: Places) -> int:
        return side.side.dilation * (side.taps - 1)

    # -------------------------------------------------------------------------------- taps

    def number(self, name: str, tap: str = "tap") -> str:
        """Which of a side's taps one of all taps is; nothing where a place meets one along it."""
        names = [own for own, _ in self.named]
        sides = [side for _, side in self.named]
        at = names.index(name)
        if sides[at].taps == 1:
            return ""
        inner = math.prod(other.taps for other in sides[at + 1 :])
        code = tap if inner == 1 else f"{tap} / {inner}"
        if at > 0 and math.prod(other.taps for other in sides[:at]) > 1:
            code += f" % {sides[at].taps}"
        return code

    def step(self, name: str) -> str:
        """What a tap adds along a side; nothing where there is one."""
        code = self.number(name)
        dilation = dict(self.named)[name].side.dilation
        return code if not code or dilation == 1 else f"{code} * {dilation}"

    def weight(self, name: str, side: Places, over: str) -> str:
        """The tap of the weights that one of a place's is: it meets them from the last to the first."""
        code = self.number(name)
        if side.phases == 1:
            return f"{side.taps - 1} - {code}" if code else "0"
        lowest = self.lowest(side, over)
        if not code:
            return lowest
        return f"{lowest} + ({side.taps - 1} - {code}) * {side.phases}"

    # -------------------------------------------------------------------------------- which meet an element

    @property
    def words(self) -> int:
        """Of 64 bits, that have a bit for each tap."""
        return math.ceil(self.taps / (2 * _WORD))

    @property
    def mask(self) -> str:
        """The variable with a bit for each tap that meets an element."""
        if self.taps <= _WORD:
            return "unsigned int met"
        return "unsigned long long met" + (f"[{self.words}]" if self.words > 1 else "")

    def met(self) -> list[str]:
        """Statements that find out which taps of a place meet an element."""
        if not self.may_miss:
            return []
        inside = []
        for name, side in self.may_miss:
            step = self.step(name)
            place = f"seen_{name} + {step}" if step else f"seen_{name}"
            inside.append(f"unsigned({place}) < {self.size(side.side.read)}")
            if not side.all_taps:
                inside.append(f"{self.weight(name, side, self.over(name, side))} < {side.side.taps}")
        one = "1u" if self.taps <= _WORD else "1ull"
        word, bit = ("met", "tap") if self.words == 1 else ("met[tap / 64]", "tap % 64")
        clear = ["met = 0;"] if self.words == 1 else [f"met[{at}] = 0;" for at in range(self.words)]
        return [
            *clear,
            "#pragma unroll",
            *block(
                f"for (int tap = 0; tap < {self.taps}; ++tap)",
                statement(f"{word} |= is_place && {' && '.join(inside)} ? {one} << {bit} : 0;"),
            ),
        ]

    def meets(self, tap: str) -> str:
        """Condition under which a tap, a variable, meets an element."""
        if self.words == 1:
            return f"(met >> {tap} & 1)"
        return f"(({tap} < 64 ? met[0] : met[1]) >> ({tap} & 63) & 1)"
