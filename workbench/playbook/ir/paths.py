"""Under which conditions an expression reads what it reads: a piece of a concatenation only inside it.

Owns the walk that finds them. Never says what is done about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.playbook.ir.expr import Apply, Expr, Load

Path = tuple[tuple[Expr, bool], ...]
"""Conditions, and which way each must go."""
_MOST = 16
"""Ways to an expression that are told apart; beyond, it counts as one that is always needed."""


def paths_of(roots: Iterable[Expr]) -> dict[Load, frozenset[Path]]:
    """Every way to every load, in order of appearance; the empty path is a load that is always made."""
    found: dict[Load, set[Path]] = {}
    seen: dict[int, set[Path]] = {}
    stack: list[tuple[Expr, Path]] = [(root, ()) for root in reversed(list(roots))]
    while stack:
        expr, path = stack.pop()
        known = seen.setdefault(expr.serial, set())
        path = path if len(known) < _MOST else ()
        if path in known:
            continue
        known.add(path)
        if isinstance(expr, Load):
            found.setdefault(expr, set()).add(path)
        if isinstance(expr, Apply) and expr.op == "select":
            condition, yes, no = expr.args
            ways = [(condition, path), (yes, (*path, (condition, True))), (no, (*path, (condition, False)))]
        else:
            ways = [(operand, path) for operand in expr.operands]
        stack.extend(reversed(ways))
    ordered = sorted(found.items(), key=lambda one: one[0].serial)
    return {load: frozenset(paths) for load, paths in ordered}


_Choices = frozenset[tuple[int, bool]]
"""Conditions by their serials, and which way each goes."""


def choices_before(roots: Sequence[Expr], load: Load) -> list[tuple[Expr, bool]]:
    """Choices of a ``where`` on every way from the roots to a load, and which way its value is looked at.

    The load may be made all the same; a ``select``, which forbids it, is none of these.
    """
    known: dict[int, _Choices | None] = {}
    conditions: dict[int, Expr] = {}
    common: _Choices | None = None
    for root in roots:
        found = _choices(root, load, known, conditions)
        if found is not None:
            common = found if common is None else common & found
    return [(conditions[serial], chosen) for serial, chosen in sorted(common or ())]


def _choices(
    expr: Expr, load: Load, known: dict[int, _Choices | None], conditions: dict[int, Expr]
) -> _Choices | None:
    """Choices that lie on every way from an expression to the load; None where there is no way."""
    if expr is load:
        return frozenset()
    if expr.serial in known:
        return known[expr.serial]
    found: _Choices | None = None
    for position, operand in enumerate(expr.operands):
        way = _choices(operand, load, known, conditions)
        if way is None:
            continue
        if isinstance(expr, Apply) and expr.op == "where" and position > 0:
            conditions[expr.args[0].serial] = expr.args[0]
            way |= {(expr.args[0].serial, position == 1)}
        found = way if found is None else found & way
    known[expr.serial] = found
    return found
