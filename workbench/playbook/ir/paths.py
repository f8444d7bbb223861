"""Under which conditions an expression reads what it reads: a piece of a concatenation only inside it.

Owns the walk that finds them. Never says what is done about it.
"""

from __future__ import annotations

from collections.abc import Iterable

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
