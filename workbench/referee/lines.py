"""Whole numbers that count along rows and columns, as ranges do, and how they compare. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.referee.convolution import Shape
from workbench.referee.diagonals import Diagonals, Dims
from workbench.referee.known_atoms import COMPARISONS, Atom, evaluated


@dataclass(frozen=True)
class Line:
    """row * i + column * j + offset at row i and column j."""

    row: int
    column: int
    offset: int

    def plus(self, other: Line) -> Line:
        """The sum."""
        return Line(self.row + other.row, self.column + other.column, self.offset + other.offset)

    def times(self, factor: int) -> Line:
        """A multiple."""
        return Line(self.row * factor, self.column * factor, self.offset * factor)

    @property
    def constant(self) -> bool:
        """The same number everywhere."""
        return not (self.row or self.column)


def matrix_of(shape: Shape) -> Dims:
    """Its last two dimensions."""
    rows, columns = (1, 1, *shape)[-2:]
    return rows, columns


def computed(name: str, lines: Sequence[Line]) -> Line | None:
    """Sums, differences and multiples of lines are lines."""
    match name, tuple(lines):
        case ("neg", (one,)):
            return one.times(-1)
        case ("add", (one, other)):
            return one.plus(other)
        case ("sub", (one, other)):
            return one.plus(other.times(-1))
        case ("rsub", (one, other)):
            return other.plus(one.times(-1))
        case ("mul", (one, other)) if other.constant:
            return one.times(other.offset)
        case ("mul", (one, other)) if one.constant:
            return other.times(one.offset)
    return None


def compared(name: str, lines: Sequence[Line], dims: Dims) -> Diagonals[Atom] | None:
    """Truth on each diagonal; None where two lines do not differ by the diagonal alone."""
    if name not in COMPARISONS or len(lines) != 2:
        return None
    apart = lines[0].plus(lines[1].times(-1))
    row = -apart.column if dims[0] == 1 else apart.row  # a single row is wherever it has to be
    column = -row if dims[1] == 1 else apart.column
    if row != -column:
        return None
    if not column:
        return Diagonals((evaluated(name, (float(apart.offset), 0.0), True),))
    turn = -(apart.offset // column)  # about where column * d + offset changes its sign
    starts = tuple(range(turn - 1, turn + 3))
    truths = [evaluated(name, (float(column * d + apart.offset), 0.0), True) for d in (turn - 2, *starts)]
    return Diagonals(tuple(truths), starts)


def fitted(line: Line, dims: Dims) -> Line:
    """Along an axis of length one nothing counts, so that it can be spread."""
    return Line(line.row if dims[0] > 1 else 0, line.column if dims[1] > 1 else 0, line.offset)


def viewed(line: Line, source: Shape, shape: Shape) -> Line | None:
    """Seen in another shape; None where it is no line there."""
    if matrix_of(source) == matrix_of(shape):
        return line
    longer = [size for size in shape if size != 1]
    if line.row or len(longer) != 1 or longer != [size for size in source if size != 1]:
        return None
    if shape[-1] != 1:
        return line
    return Line(line.column, 0, line.offset) if shape[-2] != 1 else None
