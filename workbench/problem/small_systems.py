"""Systems of a few equations: inverses, determinants, factors and solutions of small matrices.

A library has one routine for matrices of six rows and of six thousand: several launches, and a pivot is
looked for in memory. Eight unknowns fit a thread's registers. Owns how small they are, and which sizes that
makes numbers; few_axes.py fixes them. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from workbench.model import Dim, Graph, Ref, size_of
from workbench.model.systems import System, is_single, system_of

MOST_UNKNOWNS = 8
"""Rows of a matrix that is factored, as for how one plane is seen in another: 64 registers."""
MOST_INVERTED = 6
"""Rows of one that is inverted, which has as many right sides as rows."""
MOST_SIDES = 4
"""Right sides that one thread solves for. Of more each has a thread, which factors the matrix for itself."""
MOST_FOR_EACH = 4
"""Rows of a matrix that a thread factors for one right side."""


def most_rows(system: System, *, many_sides: bool = False) -> int:
    """Of its matrix."""
    if system.kind == "solve" and many_sides:
        return MOST_FOR_EACH
    return MOST_INVERTED if "inv" in system.kind else MOST_UNKNOWNS


def few_unknowns(
    graph: Graph, given: Mapping[str, tuple[Dim, ...]], sizes: Sequence[Mapping[str, int]]
) -> Iterator[Dim]:
    """Sizes of matrices that are small at all declared sizes, and of the right sides that are few."""
    outs = {node.name: node.outs for node in graph.nodes}

    def shape(ref: Ref) -> tuple[Dim, ...]:
        return given[ref.ref] if ref.ref in given else outs[ref.ref][ref.item or 0].dims

    def is_few(dim: Dim, most: int) -> bool:
        counts = {size_of(dim, one) for one in sizes}
        return len(counts) == 1 and counts <= set(range(1, most + 1))

    for node in graph.nodes:
        system = system_of(node)
        if system is None:
            continue
        matrix, sides = shape(system.matrix), None if system.sides is None else shape(system.sides)
        found, many = list(matrix[-2:]), False
        if sides is not None and is_single(matrix, sides):
            found.append(sides[-1])
        elif sides is not None:
            rows, columns = sides[-2:] if system.left else sides[:-3:-1]
            many = not is_few(columns, MOST_SIDES)
            found += [rows] if many else [rows, columns]
        if is_few(matrix[-1], most_rows(system, many_sides=many)):
            yield from found
