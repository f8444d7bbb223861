"""What is known of a graph's values without running it: constants, masks made of diagonals, plain numbers.

A mask of ranges that are compared, ``tril`` of ones, a window, their conjunctions and opposites, and what
comes of scores under such a mask: -inf where hidden, after the exponential 0. What else may hide something
(a mask that is given, a comparison of data) is *anything*. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from workbench.model import Arg, Case, Problem, Ref, Sym, TensorSpec, size_of
from workbench.referee.convolution import Shape
from workbench.referee.diagonals import Diagonals, Dims, columns_met, joint, rows_met
from workbench.referee.known_atoms import (
    ANYTHING,
    LOCAL,
    NUMBER,
    Atom,
    evaluated,
    merged,
    number_of,
    solid,
    swallows,
)
from workbench.referee.lines import Line, compared, computed, fitted, matrix_of, viewed
from workbench.referee.work import LOOKUPS, REDUCTIONS, Sized, sized

VIEWS = frozenset(["view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "expand"])
SAME = frozenset(["clone", "alias", "detach", "lift_fresh_copy", "contiguous"])
LIKE = frozenset(["full_like", "zeros_like", "ones_like", "empty_like"])
"""Operations that ask for a shape and read nothing."""
PERMUTED = frozenset(["permute", "transpose", "t"])
PRODUCTS = frozenset(["mm", "bmm", "addmm", "baddbmm"])
_FILLED = {"zeros": 0.0, "zeros_like": 0.0, "ones": 1.0, "ones_like": 1.0}
_CREATED = frozenset((*_FILLED, "arange", "full", "full_like", "scalar_tensor"))
_PUT_TOGETHER = frozenset(
    [
        "cat",
        "stack",
        "constant_pad_nd",
        "scatter",
        "scatter_add",
        "index_put",
        "slice_scatter",
        "select_scatter",
    ]
)
_OF_LINES = frozenset(
    ["add", "sub", "mul", "div", "pow", "exp", "log", "sin", "cos", "neg", "convert_element_type", "_to_copy"]
)
"""What makes numbers of whole numbers that count; others may make a mask of them."""
Known = Diagonals[Atom] | Line


def _all(atom: Atom) -> Diagonals[Atom]:
    return Diagonals((atom,))


class Values:
    """Of every argument and result at one case, over the last two dimensions; the others are all alike."""

    def __init__(self, problem: Problem, case: Case) -> None:
        self.nodes = sized(problem, case)
        self.sizes: Mapping[str, int] = case.size_map
        self.shapes: dict[str, Shape] = {name: meta.shape for name, meta in problem.metas(case).items()}
        self._known: dict[str, Known] = {spec.name: _all(_drawn(spec)) for spec in problem.tensors}
        for one in self.nodes:
            name, dims = one.node.name, matrix_of(one.output)
            self.shapes[name] = one.output
            made = self._made(one)
            self._known[name] = fitted(made, dims) if isinstance(made, Line) else made.within(dims)

    def of(self, arg: Arg, dims: Dims) -> Diagonals[Atom]:
        """As it is seen where the operand of an operation is spread to ``dims``."""
        if isinstance(arg, bool | int | float):
            return _all(float(arg))
        known = self._known.get(arg.ref) if isinstance(arg, Ref) else None
        if known is None or not isinstance(arg, Ref):
            return _all(ANYTHING)
        if isinstance(known, Line):
            return _all(float(known.offset) if known.constant else NUMBER)
        return (
            known if known.uniform or matrix_of(self.shapes[arg.ref]) == dims else _all(merged(known.values))
        )

    def own(self, arg: Arg) -> Diagonals[Atom]:
        """Of a value at its own size."""
        return self.of(arg, matrix_of(self.shapes[arg.ref]) if isinstance(arg, Ref) else (1, 1))

    def of_name(self, name: str) -> Diagonals[Atom]:
        """The same, by name."""
        return self.own(Ref(ref=name))

    def size(self, one: Sized, item: int) -> int:
        """Elements of one of several results."""
        return prod(size_of(dim, self.sizes) for dim in one.node.outs[item].dims)

    def whole(self, arg: Arg) -> int | None:
        """A whole number or a size."""
        if isinstance(arg, Sym):
            return size_of(arg.sym, self.sizes)
        return arg if isinstance(arg, int) else None

    # -------------------------------------------------------------------------------- one operation

    def _made(self, one: Sized) -> Known:
        args = one.node.args
        if len(one.node.outs) > 1:
            return _all(number_of([atom for ref, _, _ in one.inputs for atom in self.of_name(ref).values]))
        if one.name in _CREATED:
            return self._created(one)
        if not args or not isinstance(args[0], Ref) or args[0].item is not None:
            return self._computed(one)
        known, source = self._known[args[0].ref], self.shapes[args[0].ref]
        if one.name in SAME:
            return known
        if one.name in VIEWS:
            return _seen(known, source, one)
        if one.name in PERMUTED:
            return _turned(known, order_of(one, len(source)))
        if one.name in ("slice", "select"):
            return self._cut(one, known, source)
        if one.name in ("tril", "triu"):
            return joint(lambda kept, atom: atom if kept else 0.0, triangle(one), self.own(args[0]))
        return self._reduced(one, source) if one.name in REDUCTIONS else self._computed(one)

    def _created(self, one: Sized) -> Known:
        args = one.node.args
        if one.name in _FILLED:
            return _all(_FILLED[one.name])
        if one.name == "arange":
            numbers = [self.whole(arg) for arg in args]
            start, step = (0, 1) if len(numbers) == 1 else (numbers[0], numbers[2] if len(numbers) > 2 else 1)
            return _all(NUMBER) if start is None or step is None else Line(0, step, start)
        value = args[0] if one.name == "scalar_tensor" else args[1] if len(args) > 1 else None
        return _all(float(value) if isinstance(value, bool | int | float) else ANYTHING)

    def _cut(self, one: Sized, known: Known, source: Shape) -> Known:
        """Of a slice or of one place along an axis: places are counted from where it begins."""
        args = one.node.args
        axis = args[1] if len(args) > 1 and isinstance(args[1], int) else 0
        from_end = len(source) - 1 - axis % max(len(source), 1)
        if from_end > 1 or (isinstance(known, Diagonals) and known.uniform):
            return known
        start = self.whole(args[2]) if len(args) > 2 and args[2] is not None else 0
        step = self.whole(args[4]) if len(args) > 4 else 1
        if one.name == "select" or start is None or step != 1:
            return _all(NUMBER) if isinstance(known, Line) else _all(merged(known.values))
        start += source[axis] if start < 0 else 0
        if isinstance(known, Line):
            return known.plus(Line(0, 0, start * (known.row if from_end else known.column)))
        return known.shifted(start if from_end else -start)

    def _reduced(self, one: Sized, source: Shape) -> Known:
        """A number where every row holds one and the rest takes no part."""
        dims, args = matrix_of(source), one.node.args
        known = self.of(args[0], dims)
        along = args[1] if len(args) > 1 else None
        in_a_row = along in (-1, (-1,), len(source) - 1, (len(source) - 1,))
        if known.uniform and (one.name in ("any", "all") or known.values[0] in (ANYTHING, NUMBER)):
            return known
        takes_part = joint(lambda atom: solid(atom) and not swallows(atom), known)
        if not in_a_row or rows_met(takes_part, dims) < 1:
            return _all(ANYTHING)
        left = [atom for atom in known.values if not solid(atom) or swallows(atom)]
        if not all(isinstance(atom, float) and _takes_no_part(one.name, atom) for atom in left):
            return _all(ANYTHING)
        return _all(1.0 if one.name == "any" else NUMBER)

    def _computed(self, one: Sized) -> Known:
        name, args, dims = one.name, one.node.args, matrix_of(one.output)
        is_truth = one.node.outs[0].dtype == "bool"
        if name in PRODUCTS:
            return self._multiplied(one)
        if name in LOOKUPS:
            return _all(merged(self.own(args[0]).values))
        if name in _PUT_TOGETHER:
            atoms = [atom for ref, _, _ in one.inputs for atom in self.of_name(ref).values]
            return _all(merged([*atoms, 0.0] if name == "constant_pad_nd" else atoms))
        if (made := self._of_lines(one, dims, is_truth)) is not None:
            return made
        if name not in LOCAL or one.node.kwargs or not all(_fits(shape, dims) for _, shape, _ in one.inputs):
            atoms = [merged(self.of_name(ref).values) for ref, _, _ in one.inputs]
            return _all(ANYTHING if is_truth else number_of(atoms))
        operands = [self.of(arg, dims) for arg in args if isinstance(arg, Ref | bool | int | float)]
        return joint(lambda *atoms: evaluated(name, atoms, is_truth), *operands)

    def _of_lines(self, one: Sized, dims: Dims, is_truth: bool) -> Known | None:
        """What comes of whole numbers that count; None where there are none."""
        counting = [isinstance(self._known.get(ref), Line) for ref, _, _ in one.inputs]
        if not any(counting):
            return None
        lines = [line for arg in one.node.args if (line := self._line(arg)) is not None]
        if all(counting) and not one.node.kwargs:
            if one.name in ("convert_element_type", "_to_copy") and not is_truth:
                return lines[0]
            if len(lines) == len(one.node.args):
                found = compared(one.name, lines, dims) if is_truth else computed(one.name, lines)
                if found is not None:
                    return found
        return None if one.name in _OF_LINES and not is_truth else _all(ANYTHING)

    def _line(self, arg: Arg) -> Line | None:
        known = self._known.get(arg.ref) if isinstance(arg, Ref) else None
        if isinstance(known, Line):
            return known
        whole = self.whole(arg)
        return Line(0, 0, whole) if whole is not None else None

    def _multiplied(self, one: Sized) -> Known:
        """A product of numbers is one, where every row and column has something to sum."""
        left, right = operands_of(one)
        a, b = self.own(left), self.own(right)
        rows = rows_met(joint(solid, a), matrix_of(self.shapes[left.ref]))
        columns = columns_met(joint(solid, b), matrix_of(self.shapes[right.ref]))
        fit = (a.uniform or b.uniform) and rows == columns == 1 and ANYTHING not in (*a.values, *b.values)
        return _all(NUMBER if fit else ANYTHING)


# ------------------------------------------------------------------------------------ shapes


def operands_of(one: Sized) -> tuple[Ref, Ref]:
    """Both factors of a matrix product."""
    left, right = [arg for arg in one.node.args if isinstance(arg, Ref)][-2:]
    return left, right


def order_of(one: Sized, rank: int) -> list[int]:
    """Which axis of the operand each axis of a permuted result is."""
    order = list(range(rank))
    args = one.node.args
    if one.name == "permute" and len(args) > 1 and isinstance(args[1], tuple):
        return [axis % rank for axis in args[1] if isinstance(axis, int)]
    a, b = (args[1], args[2]) if one.name == "transpose" and len(args) > 2 else (rank - 2, rank - 1)
    if rank > 1 and isinstance(a, int) and isinstance(b, int):
        order[a], order[b] = order[b], order[a]
    return order


def triangle(one: Sized) -> Diagonals[bool]:
    """What ``tril`` or ``triu`` leaves for certain."""
    by = one.node.args[1] if len(one.node.args) > 1 else dict(one.node.kwargs).get("diagonal", 0)
    if not isinstance(by, int):
        return Diagonals((False,))
    return Diagonals((True, False), (by + 1,)) if one.name == "tril" else Diagonals((False, True), (by,))


def _takes_no_part(reduction: str, atom: float) -> bool:
    """True where a constant beside numbers does not change what they come to."""
    match reduction:
        case "any" | "sum":
            return atom == 0
        case "amax" | "amin":
            return swallows(atom) and (atom < 0) == (reduction == "amax")
    return False


def _drawn(spec: TensorSpec) -> Atom:
    """Of an argument: truth and small whole numbers may be a mask."""
    drawn = spec.sampler
    if spec.dtype == "bool" or drawn.kind == "bools":
        return ANYTHING
    if drawn.kind == "integers" and drawn.high_dim is None and drawn.high - drawn.low <= 2:
        return ANYTHING
    return NUMBER


def _fits(shape: Shape, dims: Dims) -> bool:
    return all(size in (1, whole) for size, whole in zip(matrix_of(shape), dims, strict=True))


def _seen(known: Known, source: Shape, one: Sized) -> Known:
    """In another shape: the same where the last two dimensions stay."""
    if isinstance(known, Line):
        return known if one.name == "expand" else viewed(known, source, one.output) or _all(NUMBER)
    stays = known.uniform or matrix_of(source) == matrix_of(one.output)
    return known if stays else _all(merged(known.values))


def _turned(known: Known, order: Sequence[int]) -> Known:
    rank, last = len(order), tuple(order[-2:])
    if rank < 2 or last == (rank - 2, rank - 1) or (isinstance(known, Diagonals) and known.uniform):
        return known
    if last == (rank - 1, rank - 2):
        return Line(known.column, known.row, known.offset) if isinstance(known, Line) else known.transposed()
    return _all(NUMBER) if isinstance(known, Line) else _all(merged(known.values))
