"""Several vectors of a thread on their way before the first is used.

Owns the text of a loop that takes turns at loading and at computing. Unrolled alone, machine code loads and
computes in turn: an unrolled sum of products of two inputs was seen to have two loads in flight, not eight.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.playbook.kernel_text import block


@dataclass(frozen=True)
class Fetch:
    """A vector of a loop's step."""

    pack: str
    ctype: str
    call: str
    """What loads it, at ``col``."""

    @property
    def line(self) -> str:
        """It alone, where it is used."""
        return f"const auto {self.pack} = {self.call};"


@dataclass(frozen=True)
class Bounds:
    """Text of a loop's first column, of what lies behind its last, and of the columns of a step."""

    start: str
    end: str
    step: str


def loaded_ahead(fetches: list[Fetch], body: list[str], bounds: Bounds, items: int, first: str) -> list[str]:
    """A loop over ``items`` steps at a time, whose loads come first; ``first`` is a free name."""
    column = f"const int col = {first} + i * ({bounds.step});"
    each = f"for (int i = 0; i < {items}; ++i)"
    loads = [f"{fetch.pack}[i] = {fetch.call};" for fetch in fetches]
    inner = [
        f"// {items} vectors of a thread are on their way before the first is used.",
        *(f"Pack<{fetch.ctype}, VEC> {fetch.pack}[{items}];" for fetch in fetches),
        "#pragma unroll",
        *block(each, [column, *block(f"if (col < {bounds.end})", loads)]),
        "#pragma unroll",
        *block(each, [column, *block(f"if (col < {bounds.end})", body)]),
    ]
    advance = f"{first} += {items} * ({bounds.step})"
    return block(f"for (int {first} = {bounds.start}; {first} < {bounds.end}; {advance})", inner)
