"""What kernels of pairs of rows read of them: a value a row in registers, vectors of columns on their way.

Owns the statements that are the same whether a block has tiles of results or a few rows against many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.playbook.analysis.pairs import Operand
from workbench.playbook.ir.views import split
from workbench.playbook.kernels.kernel_text import block
from workbench.playbook.kernels.pair_frame import PairNames, short_stem
from workbench.playbook.text.cuda_text import CTYPES
from workbench.playbook.text.scope import stem_of

Sides = Sequence[tuple[int, str, tuple[str, str]]]
"""Of each paired axis: its number, how many of its rows a thread has, the loop over them, where they are."""


def values_of_rows(one: PairNames, sides: Sides) -> list[str]:
    """What is one value a row, or one for all: it waits in registers."""
    scope = one.scope({})
    for operand in one.pairs.held(None, varies=False):
        name = one.names[operand.expr.serial] = one.frame.names.new(stem_of(operand.expr))
        scope.declare(operand.expr, name, scope.text(operand.expr).code)
    lines = list(scope.lines)
    for axis, count, (at, place) in sides:
        operands = one.pairs.held(axis, varies=False)
        if not operands:
            continue
        scope, body = one.scope({}), []
        for operand in operands:
            name = one.names[operand.expr.serial] = one.frame.names.new(f"{short_stem(operand)}_here")
            lines.append(f"{CTYPES[operand.expr.dtype]} {name}[{count}];")
            body.append(f"{name}[{at}] = {scope.text(operand.expr).code};")
        loop = f"for (int {at} = 0; {at} < {count}; ++{at})"
        lines += ["#pragma unroll", *block(loop, [one.row_of(axis, place), *scope.lines, *body])]
    return lines


def vectors_of(
    one: PairNames, operands: Sequence[Operand], into: str = ""
) -> tuple[dict[int, str], list[str]]:
    """What vectors of columns are called, by serial of the load, and the statements that read them.

    With ``into`` they go to arrays that are there; each name has that behind it.
    """
    frame, packs, lines = one.frame, dict[int, str](), list[str]()
    for load in dict.fromkeys(load for operand in operands for load in operand.loads):
        rows, cols = split(load.view, one.space.rows, one.space.columns)
        name = packs[load.serial] = frame.names.new(f"{load.buffer}_{'coming' if into else 'pack'}")
        frame.vectors.add(load.buffer)
        frame.divisors.add(one.space.columns)
        frame.use_rows(rows)
        element = frame.element(load.buffer, one.index(rows, cols))
        ctype = f"Pack<{frame.element_type(load.buffer)}, VEC>"
        given = f"{name}{into}" if into else f"const {ctype} {name}"
        lines.append(f"{given} = load<VEC>(&{element});")
    return packs, lines


def kept_vectors(
    one: PairNames, operands: Sequence[Operand], packs: Mapping[int, str], place: str
) -> list[str]:
    """What is made of vectors of columns, stored at ``place`` of where each operand waits."""
    frame, lines, each, stores = one.frame, list[str](), list[str](), list[str]()
    frame.helpers.add("store")
    bound = {
        load.serial: frame.value(load, f"{packs[load.serial]}.at[j]")
        for operand in operands
        for load in operand.loads
    }
    scope = one.scope(bound)
    made = [operand for operand in operands if not one.is_plain(operand.expr)]
    scope.prepare(operand.expr for operand in made)
    for operand in operands:
        name = packs.get(operand.expr.serial, "")
        if operand in made:
            name = frame.names.new(f"{short_stem(operand)}_pack")
            lines.append(f"Pack<{CTYPES[operand.expr.dtype]}, VEC> {name};")
            each.append(f"{name}.at[j] = {scope.text(operand.expr).code};")
        stores.append(f"store(&{one.names[operand.expr.serial]}{place}, {name});")
    if each:
        lines += ["#pragma unroll", *block("for (int j = 0; j < VEC; ++j)", [*scope.lines, *each])]
    return [*lines, *stores]
