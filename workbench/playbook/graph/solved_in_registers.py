"""Small systems solved by one thread each, in registers: determinants, inverses, factors and solutions.

A matrix of four rows is sixteen numbers, and to factor it takes forty operations, one after the other and the
same for every matrix, if rows change places by choices and not by jumps. A library's routine for batches asks
a block for each matrix, goes through memory step by step, and tells the host how it went. Pivots are the
largest of their column, as in LAPACK's ``getrf``: without them a matrix with a zero in its corner has no
inverse. Owns the arithmetic, written out on the op graph; problem/small_systems.py has what may be solved so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

from workbench.model import Arg, Dim, DType, OpNode, OutputSpec, Ref
from workbench.model.systems import System, is_single, system_of
from workbench.playbook.graph.graph_edit import RESULTS, GraphEdit, shape_of
from workbench.problem.small_systems import MOST_SIDES, most_rows


def solved_in_registers(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A small system of which nobody reads the order of rows, as arithmetic on the elements of its matrix."""
    system = system_of(node)
    if system is None or not _is_small(edit, system):
        return None
    made = {0, 1} if system.kind == "slogdet" else {0, system.told}
    if any(edit.is_read(node, item) for item in range(len(node.outs)) if item not in made):
        return None
    many = _has_many_sides(edit, system)
    one = (*edit.spec(system.matrix).dims[:-2], *((1,) if many else ()))
    results = _Registers(edit, one, many).results(system, node.outs)
    if len(node.outs) == 1:
        return node.model_copy(update={"op": "aten.alias.default", "args": results, "kwargs": ()})
    return node.model_copy(update={"op": RESULTS, "args": results, "kwargs": ()})


def _is_small(edit: GraphEdit, system: System) -> bool:
    """True for float32 of known size."""
    spec = edit.spec(system.matrix)
    rows, most = spec.dims[-1], most_rows(system, many_sides=_has_many_sides(edit, system))
    if spec.dtype != "f32" or not isinstance(rows, int) or not 1 <= rows <= most:
        return False
    if system.sides is None:
        return True
    sides = edit.spec(system.sides)
    if sides.dtype != "f32" or is_single(spec.dims, sides.dims):
        return sides.dtype == "f32"
    along = sides.dims[-2 if system.left else -1]
    return along == rows and spread(spec.dims[:-2], sides.dims[:-2]) is not None


def _has_many_sides(edit: GraphEdit, system: System) -> bool:
    if system.sides is None or is_single(edit.spec(system.matrix).dims, edit.spec(system.sides).dims):
        return False
    columns = edit.spec(system.sides).dims[-1 if system.left else -2]
    return not isinstance(columns, int) or columns > MOST_SIDES


def spread(*shapes: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """The shape of all together, where each is as long or has one; None where they do not meet."""
    rank = max(map(len, shapes))
    found: list[Dim] = []
    for dims in zip(*[(*(1,) * (rank - len(shape)), *shape) for shape in shapes], strict=True):
        longer = dict.fromkeys(dim for dim in dims if dim != 1)
        if len(longer) > 1:
            return None
        found.append(next(iter(longer), 1))
    return tuple(found)


Row = list[Ref]


@dataclass(frozen=True)
class _Registers:
    """Each element of a matrix is a tensor of its own, with an entry a matrix; ``batch`` is their shape.

    With ``many`` right sides an entry is one of these, and the matrix the same for all along the last axis.
    """

    edit: GraphEdit
    batch: tuple[Dim, ...]
    many: bool

    def results(self, system: System, outs: Sequence[OutputSpec]) -> tuple[Ref, ...]:
        """What the operation gives, as tensors of its shapes."""
        rows = self._matrix(system.matrix)
        if system.kind in ("det", "slogdet"):
            pivots, sign = self._pivots(rows)
            if system.kind == "det":
                return (self._all("mul.Tensor", [*pivots, sign]),)
            signs = [self._op("sign.default", pivot) for pivot in pivots]
            logs = [self._op("log.default", self._op("abs.default", pivot)) for pivot in pivots]
            return self._all("mul.Tensor", [*signs, sign]), self._all("add.Tensor", logs)
        if not system.left:  # the same as a system that is turned
            rows = [list(column) for column in zip(*rows, strict=True)]
            system = replace(system, upper=not system.upper)
        solution, pivots = self._solution(system, rows)
        result = self._together(solution, outs[0], system.left)
        if system.told is None:
            return (result,)
        which = self._which_is_none(pivots, outs[system.told])
        return (*(result,) * system.told, which)  # what lies between nobody reads

    def _which_is_none(self, pivots: Row, out: OutputSpec) -> Ref:
        found = self._number(0.0)
        for at in reversed(range(len(pivots))):
            size = self._op("abs.default", pivots[at])  # a factor's may be NaN: the root of a negative number
            there = self._op("gt.Tensor", size, self._number(0.0), dtype="bool")
            found = self._op("where.self", there, found, self._number(at + 1.0))
        return self.edit.view(self.edit.converted(found, out.dtype), out.dims)

    def _solution(self, system: System, rows: list[Row]) -> tuple[list[Row], Row]:
        """And pivots, where some are looked for."""
        count = len(rows)
        if system.kind == "cholesky":
            factor = self._cholesky(rows, system.upper)
            return factor, [factor[at][at] for at in range(count)]
        sides = self._sides(system) if system.sides is not None else self._unit(count)
        if system.kind in ("solve", "inv"):
            return self._solved(rows, sides)
        turned = [list(column) for column in zip(*rows, strict=True)]
        if system.kind == "triangular":
            walk = self._backward if system.upper else self._forward
            return walk(rows, sides, system.unit), []
        lower, upper = (turned, rows) if system.upper else (rows, turned)
        return self._backward(upper, self._forward(lower, sides)), []

    def _solved(self, rows: list[Row], sides: list[Row]) -> tuple[list[Row], Row]:
        """Gaussian elimination on both, and what is left from the last row up."""
        count = len(rows)
        both, _ = self._eliminated([[*row, *side] for row, side in zip(rows, sides, strict=True)], count)
        found = self._backward([row[:count] for row in both], [row[count:] for row in both])
        return found, [both[at][at] for at in range(count)]

    def _pivots(self, rows: list[Row]) -> tuple[Row, Ref]:
        """The diagonal of what is left of the matrix, and the sign of how its rows were moved."""
        left, sign = self._eliminated(rows, len(rows), singular=True)
        return [left[at][at] for at in range(len(rows))], sign

    def _eliminated(self, rows: list[Row], count: int, singular: bool = False) -> tuple[list[Row], Ref]:
        """Zeros below the diagonal, which are not written; the largest of a column is brought up to it.

        Where the largest is zero all of them are: a ``singular`` matrix is left as it is there, and has a
        determinant of zero, not NaN.
        """
        rows, sign = [list(row) for row in rows], self._number(1.0)
        for at in range(count - 1):
            for below in range(at + 1, count):
                sizes = (self._op("abs.default", rows[row][at]) for row in (below, at))
                larger = self._op("gt.Tensor", *sizes, dtype="bool")
                for column in range(at, len(rows[at])):
                    top, bottom = rows[at][column], rows[below][column]
                    rows[at][column] = self._op("where.self", larger, bottom, top)
                    rows[below][column] = self._op("where.self", larger, top, bottom)
                sign = self._op("where.self", larger, self._op("neg.default", sign), sign)
            pivot = self._not_zero(rows[at][at]) if singular else rows[at][at]
            for below in range(at + 1, count):
                factor = self._op("div.Tensor", rows[below][at], pivot)
                for column in range(at + 1, len(rows[at])):
                    rows[below][column] = self._less(rows[below][column], factor, rows[at][column])
        return rows, sign

    def _not_zero(self, pivot: Ref) -> Ref:
        is_zero = self._op("eq.Tensor", pivot, self._number(0.0), dtype="bool")
        return self._op("where.self", is_zero, self._number(1.0), pivot)

    def _forward(self, lower: list[Row], sides: list[Row], unit: bool = False) -> list[Row]:
        found: list[Row] = []
        for at, side in enumerate(sides):
            values = list(side)
            for before, known in enumerate(found):
                values = [self._less(one, lower[at][before], x) for one, x in zip(values, known, strict=True)]
            found.append(values if unit else [self._op("div.Tensor", one, lower[at][at]) for one in values])
        return found

    def _backward(self, upper: list[Row], sides: list[Row], unit: bool = False) -> list[Row]:
        """The same from the last row up."""
        turned = [row[::-1] for row in reversed(upper)]
        return self._forward(turned, sides[::-1], unit)[::-1]

    def _cholesky(self, rows: list[Row], upper: bool) -> list[Row]:
        """The lower factor, of the triangle that is asked for; the other one is zero."""
        if upper:
            rows = [list(column) for column in zip(*rows, strict=True)]
        count, zero = len(rows), self._number(0.0)
        low: list[Row] = [[zero] * count for _ in range(count)]
        for column in range(count):
            for row in range(column, count):
                value = rows[row][column]
                for before in range(column):
                    value = self._less(value, low[row][before], low[column][before])
                if row == column:
                    low[row][column] = self._op("sqrt.default", value)
                else:
                    low[row][column] = self._op("div.Tensor", value, low[column][column])
        return [list(column) for column in zip(*low, strict=True)] if upper else low

    def _matrix(self, of: Ref) -> list[Row]:
        """Every element, by row and column."""
        count = self.edit.spec(of).dims[-1]
        assert isinstance(count, int)
        rows = [self._taken(of, -2, row) for row in range(count)]
        elements = [[self._taken(row, -1, column) for column in range(count)] for row in rows]
        if not self.many:
            return elements
        return [[self.edit.view(element, self.batch) for element in row] for row in elements]

    def _sides(self, system: System) -> list[Row]:
        """Right sides by row, and by column where a thread has all of them."""
        assert system.sides is not None
        dims, matrix = self.edit.spec(system.sides).dims, self.edit.spec(system.matrix).dims
        count = matrix[-1]
        assert isinstance(count, int)
        single = is_single(matrix, dims)
        axis = -2 if system.left and not single else -1
        rows = [self._taken(system.sides, axis, row) for row in range(count)]
        if single or self.many:
            return [[row] for row in rows]
        columns = dims[-1 if system.left else -2]
        assert isinstance(columns, int)
        return [[self._taken(row, -1, column) for column in range(columns)] for row in rows]

    def _unit(self, count: int) -> list[Row]:
        one, zero = self._number(1.0), self._number(0.0)
        return [[one if i == j else zero for j in range(count)] for i in range(count)]

    def _taken(self, of: Ref, axis: int, place: int) -> Ref:
        spec = self.edit.spec(of)
        axis %= len(spec.dims)
        out = OutputSpec(dtype=spec.dtype, dims=(*spec.dims[:axis], *spec.dims[axis + 1 :]))
        return self.edit.add("aten.select.int", (of, axis, place), out, "element")

    def _together(self, rows: list[Row], out: OutputSpec, left: bool) -> Ref:
        """A tensor of all elements, column after column, as a library leaves it."""
        flat = [element for column in zip(*rows, strict=True) for element in column]
        whole = spread(*(self.edit.spec(element).dims for element in flat))
        assert whole is not None
        one = (*whole, 1)
        elements = tuple(self.edit.view(self._spread(element, whole), one) for element in flat)
        beside = OutputSpec(dtype=out.dtype, dims=(*whole, len(elements)))
        joined = self.edit.add("aten.cat.default", (elements, len(whole)), beside)
        if beside.dims == out.dims and not self.many:
            return joined
        if not left:
            return self.edit.view(joined, out.dims)
        *batch, count, columns = out.dims
        turned = self.edit.view(joined, (*batch, columns, count))
        axes = (*range(len(batch)), len(batch) + 1, len(batch))
        return self.edit.add(
            "aten.permute.default", (turned, axes), OutputSpec(dtype=out.dtype, dims=out.dims)
        )

    def _spread(self, element: Ref, whole: tuple[Dim, ...]) -> Ref:
        spec = self.edit.spec(element)
        if spec.dims == whole:
            return element
        out = OutputSpec(dtype=spec.dtype, dims=whole)
        return self.edit.add("aten.expand.default", (element, shape_of(whole)), out)

    def _all(self, op: str, parts: list[Ref]) -> Ref:
        return reduce(partial(self._op, op), parts)

    def _less(self, value: Ref, factor: Ref, other: Ref) -> Ref:
        return self._op("sub.Tensor", value, self._op("mul.Tensor", factor, other))

    def _number(self, value: float) -> Ref:
        args: tuple[Arg, ...] = (shape_of(self.batch), value)
        out = OutputSpec(dtype="f32", dims=self.batch)
        return self.edit.add("aten.full.default", args, out, kwargs=(("dtype", "f32"),))

    def _op(self, op: str, *args: Ref, dtype: DType = "f32") -> Ref:
        dims = spread(*(self.edit.spec(arg).dims for arg in args))
        assert dims is not None
        return self.edit.add(f"aten.{op}", args, OutputSpec(dtype=dtype, dims=dims))
