"""Index arithmetic of a kernel as text, and which accesses may be vectorised.

Owns the spelling of views. Never decides on a width: it names the sizes that must be divisible by one.
"""

from __future__ import annotations

import re
from collections import Counter

from workbench.playbook.cuda_text import ATOM, PRODUCT, SUM, Text
from workbench.playbook.names import Macros, Names
from workbench.playbook.sizes import ONE, Size
from workbench.playbook.views import Axis, View


def index_text(view: View, variable: str, macros: Macros, wide: bool = False) -> Text:
    """The element that index ``variable`` finds, as an expression; ``0`` when it is always the first.

    ``wide`` says that the variable has 64 bits; products of narrower ones are widened first.
    """
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
    if not view.offset.is_zero:
        below = view.offset.is_negative
        (minus if below else plus).append(macros.text(-view.offset if below else view.offset))
    if len(plus) + len(minus) > 1 and plus and plus[0] == variable:
        plus[0] = variable.removeprefix("(").removesuffix(")")
    code = " - ".join([" + ".join(plus) or "0", *minus])
    strength = SUM if len(plus) + len(minus) > 1 else ATOM if code.isidentifier() or code == "0" else PRODUCT
    return Text(code, strength)


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


def is_unit(view: View) -> bool:
    """True when neighbouring indices find neighbouring elements."""
    return bool(view.axes) and view.axes[-1].stride.is_one


def divisors_of(view: View) -> tuple[Size, ...]:
    """Sizes that a vector width must divide for aligned vectors that never straddle an axis."""
    if not view.axes:
        return ()
    others = tuple(axis.stride for axis in view.axes[:-1] if not axis.stride.is_zero)
    offset = () if view.offset.is_zero else (view.offset,)
    return (view.axes[-1].size, *others, *offset)


_PIECE = r"{variable} / (?P<outer>\w+)(?: % (?P<size>\w+))?(?! [/%])|{variable} % (?P<inner>\w+)(?! [/%])"


def name_pieces(lines: list[str], variable: str, names: Names) -> list[str]:
    """Give quotients and remainders of an index that occur more than once a name of their own."""
    pattern = re.compile(_PIECE.format(variable=_word(variable)))
    found = Counter(match.group() for line in lines for match in pattern.finditer(line))
    named: dict[str, str] = {}
    for match in {m.group(): m for line in lines for m in pattern.finditer(line)}.values():
        if found[match.group()] > 1:
            named[match.group()] = names.new(_piece_name(match))
    texts = [pattern.sub(lambda m: named.get(m.group(), m.group()), line) for line in lines]
    return [*(f"const size_t {name} = {piece};" for piece, name in named.items()), *texts]


def _word(variable: str) -> str:
    return rf"\b{variable}" if variable.isidentifier() else re.escape(variable)


def _piece_name(match: re.Match[str]) -> str:
    size = match["inner"] or match["size"]
    if size is None:
        return "row_at"
    word = size.split("_")[0].lower().removesuffix("s")
    return f"{word}_at"
