"""Index arithmetic of a kernel as text, and which accesses may be vectorised.

Owns the spelling of views. Never decides on a width: it names the sizes that must be divisible by one.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from workbench.playbook.ir.sizes import ONE, Size
from workbench.playbook.ir.views import Axis, View
from workbench.playbook.text.cuda_text import ATOM, PRODUCT, SUM, Text
from workbench.playbook.text.names import Macros, Names


def index_text(view: View, variable: str, macros: Macros, wide: bool = False) -> Text:
    """The element that index ``variable`` finds, as an expression; ``0`` when it is always the first.

    ``wide`` says that the variable has 64 bits; products of narrower ones are widened first.
    """
    plus, minus = index_terms(view, variable, macros, wide)
    if not view.offset.is_zero:
        below = view.offset.is_negative
        (minus if below else plus).append(macros.text(-view.offset if below else view.offset))
    if len(plus) + len(minus) > 1 and plus and plus[0] == variable:
        plus[0] = variable.removeprefix("(").removesuffix(")")
    code = " - ".join([" + ".join(plus) or "0", *minus])
    strength = SUM if len(plus) + len(minus) > 1 else ATOM if code.isidentifier() or code == "0" else PRODUCT
    return Text(code, strength)


def index_terms(view: View, variable: str, macros: Macros, wide: bool) -> tuple[list[str], list[str]]:
    """The shares of a view's axes, from slowest to fastest: those to be added, and those taken off."""
    plus: list[str] = []
    minus: list[str] = []
    inner = ONE
    for position in reversed(range(len(view.axes))):
        axis = view.axes[position]
        if not axis.stride.is_zero:
            backwards = axis.stride.is_negative
            stride = -axis.stride if backwards else axis.stride
            term = _term(Axis(axis.size, stride), inner, position == 0, variable, macros, wide)
            (minus if backwards else plus).insert(0, term)
        inner = inner * axis.size
    return plus, minus


def _term(axis: Axis, inner: Size, first: bool, variable: str, macros: Macros, wide: bool) -> str:
    """One axis's share: which step of the axis the index is at, times the stride."""
    code = variable
    if not inner.is_one:
        code += f" / {macros.text(inner)}"
    if not first:
        code += f" % {macros.text(axis.size)}"
    if axis.stride.is_one:
        return code
    return f"{code if wide else f'size_t({code})'} * {macros.text(axis.stride)}"


class VectorIndex:
    """The index of element ``k`` of a vector that begins at ``variable``, for views that need not be unit.

    Where a view finds the same element for a whole run of indices and the width divides the run, the index of
    the vector's first element is as good: what it leads to is then computed once a vector.
    """

    def __init__(self, variable: str, width: int, names: Names, macros: Macros) -> None:
        self.variable = variable
        self._width = width
        self._names = names
        self._macros = macros
        self._runs: dict[str, str] = {}

    def of(self, view: View) -> str:
        """The index to look up a view with."""
        run = run_of(view)
        if run.is_one or (run.number is not None and run.number % self._width):
            return f"({self.variable} + k)"
        if run.number is not None:
            return self.variable
        size = self._macros.text(run)
        if size not in self._runs:
            self._runs[size] = self._names.new("run_at")
        return self._runs[size]

    def text(self, view: View, wide: bool = False) -> Text:
        """The element that a view finds."""
        text = index_text(view, self.of(view), self._macros, wide)
        return Text(f"{self.variable} + k", SUM) if text.code == f"({self.variable} + k)" else text

    def named(self, lines: list[str], ctype: str) -> list[str]:
        """The lines with what they call by a name declared before them."""
        found = []
        for run, name in self._runs.items():
            if any(re.search(rf"\b{name}\b", line) for line in lines):
                comment = f"// The same for a whole vector where {run} is a multiple of VEC."
                found += [comment, f"const {ctype} {name} = {self.variable} + ({run} % VEC ? k : 0);"]
        return [*found, *lines]

    @property
    def each(self) -> str:
        """The index that is another one for each element."""
        return f"({self.variable} + k)"

    @property
    def all(self) -> list[str]:
        """Every index that ``of`` may have given."""
        return [self.each, self.variable, *self._runs.values()]


def run_of(view: View) -> Size:
    """How many neighbouring indices find the same element: the trailing axes without a stride."""
    run = ONE
    for axis in reversed(view.axes):
        if not axis.stride.is_zero:
            return run
        run = run * axis.size
    return ONE


def is_unit(view: View) -> bool:
    """True when neighbouring indices find neighbouring elements."""
    return bool(view.axes) and view.axes[-1].stride.is_one


def repeated_row(view: View) -> Size | None:
    """The elements of one whole row that every row of indices finds again; None for any other view."""
    if len(view.axes) != 2 or not view.offset.is_zero or not is_unit(view):
        return None
    return view.axes[1].size if view.axes[0].stride.is_zero else None


def divisors_of(view: View) -> tuple[Size, ...]:
    """Sizes that a vector width must divide for aligned vectors that never straddle an axis."""
    if not view.axes:
        return ()
    others = tuple(axis.stride for axis in view.axes[:-1] if not axis.stride.is_zero)
    offset = () if view.offset.is_zero else (view.offset,)
    return (view.axes[-1].size, *others, *offset)


_PIECE = (
    r"{variable} / (?P<outer>\w+)\b(?: % (?P<size>\w+)\b)?(?! [/%])|{variable} % (?P<inner>\w+)\b(?! [/%])"
)


def name_pieces(lines: list[str], variable: str, names: Names, least: int = 2) -> list[str]:
    """Give quotients and remainders of an index that occur more than once a name of their own.

    Those by sizes that have a name need only occur ``least`` times.
    """
    pattern = re.compile(_PIECE.format(variable=_word(variable)))
    found = Counter(match.group() for line in lines for match in pattern.finditer(line))
    named: dict[str, str] = {}
    for match in {m.group(): m for line in lines for m in pattern.finditer(line)}.values():
        by = match["outer"] or match["inner"]
        if found[match.group()] >= (2 if by.isdigit() else least):
            named[match.group()] = names.new(_piece_name(match))
    texts = [pattern.sub(lambda m: named.get(m.group(), m.group()), line) for line in lines]
    return [*(f"const size_t {name} = {piece};" for piece, name in named.items()), *texts]


_QUOTIENT = r"= \({variable} \+ k\) / (\w+)( % \w+)?;$"
_REMAINDER = r"= \({variable} \+ k\) % (\w+);$"


def once_a_vector(lines: list[str], variable: str = "i") -> list[str]:
    """Named pieces of the index of element ``k``, divided once a vector where the vector lies in one row.

    The compiler knows sizes and VEC, and not that ``variable`` is a multiple of VEC: it would divide for
    every element, which is most of what a pooling kernel computes.
    """
    quotient, remainder = (re.compile(one.format(variable=variable)) for one in (_QUOTIENT, _REMAINDER))
    found = [
        remainder.sub(
            rf"= \1 % VEC ? ({variable} + k) % \1 : {variable} % \1 + k;",
            quotient.sub(rf"= ({variable} + (\1 % VEC ? k : 0)) / \1\2;", line),
        )
        for line in lines
    ]
    if found == lines:
        return lines
    return [
        "// Where VEC divides a size, a vector lies in one row: then it is divided once a vector.",
        *found,
    ]


def _word(variable: str) -> str:
    return rf"\b{variable}" if variable.isidentifier() else re.escape(variable)


def _piece_name(match: re.Match[str]) -> str:
    size = match["inner"] or match["size"]
    if size is None:
        return "row_at"
    word = size.split("_")[0].lower().removesuffix("s")
    return f"{word}_at"


MOST_NARROW = 2_000_000_000
"""Elements that an index of 32 bits can tell apart, with room for the last block's idle threads."""


@dataclass(frozen=True)
class WidthRule:
    """When vectors are allowed: sizes that the width must divide, and pointers that must be aligned."""

    width: int
    divisors: tuple[Size, ...]
    buffers: tuple[tuple[str, int], ...]
    """Arguments that are read or written through vectors, and the bytes of one."""

    @property
    def is_possible(self) -> bool:
        """False when a constant size already forbids vectors, also of half the width."""
        least = max(self.width // 2, 2)
        return all(size.number is None or size.number % least == 0 for size in self.divisors)
