"""Several vectors of a thread on their way before the first is used.

Owns the text of a loop that takes turns at loading and at computing, and how many loads the model takes to be
in flight of any loop. Unrolled alone, machine code loads and computes in turn: an unrolled sum of products of
two inputs was seen to have two loads in flight, not eight.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.playbook.arithmetic import is_long
from workbench.playbook.kernel_text import block
from workbench.playbook.row_passes import Pass
from workbench.playbook.schedule import Schedule

UNROLLED, _UNROLLED_WIDE = 16, 6
"""Loads of four bytes, and wider ones, that a compiler issues before the first is used, in a short loop."""
_UNROLLED_ARG, _UNROLLED_ARG_WIDE = 4, 2
"""The same where places are compared too: counted in machine code. argmax of 64 rows of 50257 on an H100
takes 28.8 us in scalars, 19.5 in vectors of four between scalar edges, 10.4 with blocks of 1024 on top."""
MOST_AHEAD = 8
"""Vectors of a thread that are on their way together where a warp computes a row: 32 registers."""
_LONG_LOOP = 6
"""How many times fewer where the loop's body is long."""
_IN_TURN, _IN_TURN_PLAIN = 1, 2
"""Steps of a piece's loop whose loads come before the first use: seen in machine code, where the compiler
knows no end of the loop; streaming loads stay where they are written."""


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


def loaded_ahead(fetches: list[Fetch], body: list[str], bounds: Bounds, items: str, first: str) -> list[str]:
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


def whole_row_ahead(name: str, columns: str, step: str, fetches: int) -> str:
    """How many steps of a warp's row come first: all of them, if the row is short."""
    most = max(1, MOST_AHEAD // fetches)
    return (
        f"constexpr int {name} = {columns} < {most} * {step} ? ({columns} + {step} - 1) / ({step}) : {most};"
    )


def steps_ahead(schedule: Schedule, step: Pass, width: int, entered: int, in_turn: bool) -> int:
    """Steps of a loop whose loads come before the first use; ``in_turn`` where it knows no end."""
    deep = UNROLLED if width == 1 else _UNROLLED_WIDE
    kinds = {one.kind for one in step.accumulators}
    if is_long(step.roots, [one.kind for one in step.accumulators], entered):
        deep //= _LONG_LOOP
    elif any(kind.startswith("arg") for kind in kinds):
        deep = _UNROLLED_ARG if width == 1 else _UNROLLED_ARG_WIDE
    if in_turn:
        deep = min(deep, _IN_TURN if schedule.stream and width > 1 else _IN_TURN_PLAIN)
    if schedule.team == "warp" and width > 1 and schedule.cache == "reread":
        deep = max(deep, MOST_AHEAD // 2)
    if schedule.cache == "shared" and "welford" in kinds:
        return 1
    return max(deep, schedule.items)
