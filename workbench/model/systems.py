"""Operations that solve systems of linear equations: what each takes and gives.

Owns how torch's operations are read, by position or by name. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.model.problem import Arg, OpNode, Ref

MATRIX_AT = {"cholesky_solve": 1}
"""Which argument is the matrix, by ATen name, where it is not the first."""
_TOLD = {"inv": 1, "cholesky": 1, "solve": 3}


@dataclass(frozen=True)
class System:
    """One operation: its matrix, whose last two axes are rows and columns, and what it is solved for."""

    kind: str
    """``det``, ``slogdet``, ``inv``, ``solve``, ``cholesky``, ``cholesky_solve``, ``cholesky_inverse`` or
    ``triangular``."""
    matrix: Ref
    sides: Ref | None = None
    """Right sides, a column each; of one axis less than ``matrix`` where there is one. Batches are spread."""
    upper: bool = False
    unit: bool = False
    """The diagonal is taken to be one."""
    left: bool = True
    """False where right sides are rows, and ``x @ matrix`` is what equals them."""

    @property
    def told(self) -> int | None:
        """Which result says what pivot is none, counted from 1, or 0; None where none does."""
        return _TOLD.get(self.kind)


def system_of(node: OpNode) -> System | None:
    """What a node solves; None for other operations."""
    named = dict(node.kwargs)
    match node.base_name, node.args:
        case "_linalg_det", (Ref() as matrix, *_):
            return System("det", matrix)
        case "_linalg_slogdet", (Ref() as matrix, *_):
            return System("slogdet", matrix)
        case "linalg_inv_ex", (Ref() as matrix, *_):
            return System("inv", matrix)
        case "linalg_cholesky_ex", (Ref() as matrix, *rest):
            return System("cholesky", matrix, upper=_told(rest, 0, named, "upper"))
        case "_linalg_solve_ex", (Ref() as matrix, Ref() as sides, *rest):
            return System("solve", matrix, sides, left=_told(rest, 0, named, "left", default=True))
        case "cholesky_solve", (Ref() as sides, Ref() as matrix, *rest):
            return System("cholesky_solve", matrix, sides, upper=_told(rest, 0, named, "upper"))
        case "cholesky_inverse", (Ref() as matrix, *rest):
            return System("cholesky_inverse", matrix, upper=_told(rest, 0, named, "upper"))
        case "linalg_solve_triangular", (Ref() as matrix, Ref() as sides, *rest):
            upper, unit = _told(rest, 0, named, "upper"), _told(rest, 2, named, "unitriangular")
            return System(
                "triangular", matrix, sides, upper, unit, _told(rest, 1, named, "left", default=True)
            )
    return None


def _told(
    rest: Sequence[Arg], position: int, named: Mapping[str, Arg], name: str, default: bool = False
) -> bool:
    return bool(rest[position] if len(rest) > position else named.get(name, default))


def is_single(matrix: Sequence[object], sides: Sequence[object]) -> bool:
    """True for shapes of a matrix and of one right side without an axis of its own, batch by batch."""
    return tuple(sides) == tuple(matrix[:-1])
