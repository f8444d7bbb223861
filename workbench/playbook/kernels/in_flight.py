"""Several vectors of a thread on their way before the first is used.

Owns the text of a loop that takes turns at loading and at computing, and how many loads the model takes to be
in flight of any loop. Unrolled alone, machine code loads and computes in turn: an unrolled sum of products of
two inputs was seen to have two loads in flight, not eight.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from workbench.playbook.analysis.arithmetic import is_long
from workbench.playbook.analysis.co_moments import MOMENTS
from workbench.playbook.analysis.row_passes import Pass
from workbench.playbook.kernels.kernel_text import block
from workbench.playbook.schedules.schedule import Schedule
from workbench.playbook.text.names import Names

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

    def at(self, column: str) -> str:
        """The call at a column: a constant that is added to a pointer last is part of the instruction."""
        return re.sub(r" \+ col\)$", f" + {column})", self.call)


@dataclass(frozen=True)
class Bounds:
    """Text of a team's first column and of what lies behind its last; and where a thread begins."""

    begin: str
    """Empty for 0."""
    end: str
    offset: str
    """Columns from the team's first to the thread's first; empty for none."""


@dataclass(frozen=True)
class Ahead:
    """Names in a loop that has several vectors of a thread on their way."""

    items: str
    """How many vectors: a number or a constant."""
    step: str
    """Columns from one to the next: a constant, but for blocks that walk a row side by side."""
    take: str
    """The function that loads some vectors and takes them in."""
    first: str
    """Column at which the first of them begins."""
    there: str
    """How many of them begin within the row."""
    whole: str
    """Where the columns end of which all of them are there."""
    is_short: bool = False
    """As many vectors as a short row has."""

    def constants(self, step: str, columns: str, fetches: int) -> list[str]:
        """What the numbers stand for; all vectors of a row come together, if it is short."""
        known = "const" if "pieces" in step else "constexpr"
        lines = [f"{known} int {self.step} = {step};"]
        if not self.is_short:
            return lines
        most = max(1, MOST_AHEAD // fetches)
        whole = f"({columns} + {self.step} - 1) / {self.step}"
        return [*lines, f"constexpr int {self.items} = {columns} < {most} * {self.step} ? {whole} : {most};"]

    @property
    def each(self) -> str:
        """The loop over them."""
        return f"for (int i = 0; i < {self.items}; ++i)"

    @property
    def is_there(self) -> str:
        """Condition that the vector at hand begins in the row; a constant where all do."""
        return f"if (i < {self.there})"

    @property
    def column(self) -> str:
        """Where it begins."""
        return f"{self.first} + i * {self.step}"


@dataclass(frozen=True)
class Taken:
    """Statements for vectors that are taken together."""

    fetches: list[Fetch]
    before: list[str]
    each: list[str]
    """For one of them."""
    after: list[str]
    """For all of them."""


def names_ahead(names: Names, items: int) -> Ahead:
    """Free names; one item stands for as many as a short row has."""
    count = names.new("AHEAD") if items == 1 else str(items)
    step, take, first, there, whole = map(names.new, ("STEP", "take", "from", "there", "whole"))
    return Ahead(count, step, take, first, there, whole, is_short=items == 1)


def loaded_ahead(taken: Taken, bounds: Bounds, ahead: Ahead, meanwhile: list[str]) -> list[str]:
    """A loop over several vectors at a time, whose loads come first.

    It is a function, called with a constant where all vectors are there, so that no condition is left, and
    once more for the rest of the row. What is asked for ``meanwhile`` is on its way together with that.
    """
    loads = [f"{fetch.pack}[i] = {fetch.at(ahead.column)};" for fetch in taken.fetches]
    inner = [
        *(f"Pack<{fetch.ctype}, VEC> {fetch.pack}[{ahead.items}];" for fetch in taken.fetches),
        *taken.before,
        "#pragma unroll",
        *block(ahead.each, block(ahead.is_there, _with_column(loads, ahead))),
        "#pragma unroll",
        *block(ahead.each, block(ahead.is_there, _with_column(taken.each, ahead))),
        *taken.after,
    ]
    first, group = ahead.first, f"{ahead.items} * {ahead.step}"
    function = block(f"const auto {ahead.take} = [&](int {first}, int {ahead.there})", inner)
    length = f"({bounds.end} - {bounds.begin})" if bounds.begin else bounds.end
    begin = [bounds.begin] if bounds.begin else []
    offset = [bounds.offset] if bounds.offset else []
    start, rest = (" + ".join([*at, *offset]) or "0" for at in (begin, [ahead.whole]))
    last = f"({bounds.end} - ({rest}) + {ahead.step} - 1) / {ahead.step}"
    loop = f"for (int {first} = {start}; {first} < {ahead.whole}; {first} += {group})"
    return [
        f"// {ahead.items} vectors of a thread are on their way before the first is used.",
        *function[:-1],
        f"{function[-1]};",
        f"const int {ahead.whole} = {' + '.join([*begin, f'{length} / ({group}) * ({group})'])};",
        *block(loop, [f"{ahead.take}({first}, {ahead.items});"]),
        *meanwhile,
        *block(f"if ({rest} < {bounds.end})", [f"{ahead.take}({rest}, {last});"]),
    ]


def _with_column(lines: list[str], ahead: Ahead) -> list[str]:
    """The lines, behind the number of the column where they ask for it."""
    asked = any(re.search(r"\bcol\b", line) for line in lines)
    return [f"const int col = {ahead.column};", *lines] if asked else lines


def vectors_together(schedule: Schedule, width: int, fetches: int) -> int:
    """Vectors whose maxima are known before their sums change scale, where a loop loads several at a time."""
    if width == 1 or schedule.cache != "reread" or schedule.team not in ("warp", "block"):
        return 1
    if schedule.team == "warp" and schedule.items == 1:
        return max(1, MOST_AHEAD // max(1, fetches))
    return schedule.items


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
    if schedule.cache == "shared" and not kinds.isdisjoint(MOMENTS):
        return 1
    return max(deep, schedule.items)
