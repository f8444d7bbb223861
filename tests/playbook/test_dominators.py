"""What every way from a value to the roots goes through: found in one walk, as by leaving each part out."""

from __future__ import annotations

import random

from workbench.playbook.analysis.dominators import Dominators
from workbench.playbook.ir.expr import Expr, Pool, walk_all
from workbench.playbook.ir.sizes import Sizes, number
from workbench.playbook.ir.views import contiguous


def _pool() -> Pool:
    return Pool(Sizes(()))


def _load(pool: Pool, buffer: str) -> Expr:
    return pool.load(buffer, "f32", contiguous((number(8),)))


def _is_needed(roots: list[Expr], wanted: Expr, without: Expr) -> bool:
    """True where a way leads from a root to what is wanted that does not lead through what is left out."""
    stack, seen = list(roots), set[int]()
    while stack:
        expr = stack.pop()
        if expr is without or expr.serial in seen:
            continue
        if expr is wanted:
            return True
        seen.add(expr.serial)
        stack.extend(expr.operands)
    return False


def test_what_no_way_goes_around_is_found_and_nothing_else() -> None:
    draw = random.Random(7)
    told_apart = 0
    for _ in range(60):
        pool = _pool()
        made = [_load(pool, name) for name in "abc"]
        leaf = made[0]
        for _ in range(draw.randint(3, 14)):
            made.append(pool.apply(draw.choice(["add", "mul"]), "f32", tuple(draw.choices(made[-5:], k=2))))
        roots = draw.sample(made, draw.randint(1, 3))
        below = list(walk_all(roots))
        expected = [part for part in below if leaf in below and not _is_needed(roots, leaf, part)]
        found = Dominators(roots).of(leaf)
        assert found == sorted(expected, key=lambda part: part.serial)
        told_apart += 1 < len(found) < len(below)
    assert told_apart > 5


def test_a_root_that_is_read_by_another_root_ends_a_way() -> None:
    pool = _pool()
    leaf = _load(pool, "x")
    first = pool.apply("exp", "f32", (leaf,))
    second = pool.apply("neg", "f32", (first,))
    assert Dominators([second]).of(leaf) == [leaf, first, second]
    assert Dominators([first, second]).of(leaf) == [leaf, first]
    assert Dominators([second]).of(_load(pool, "y")) == []
