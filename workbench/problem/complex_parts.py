"""Complex numbers as what they are made of: a program with none, each part a tensor of its own.

Owns what an operation on complex numbers is in real ones, one rule for each operation. A part that is zero
everywhere, as the real one of ``1j * x``, is no tensor at all. Runs in a worker child.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.symbolic_shapes import PropagateUnbackedSymInts
from torch.utils._pytree import tree_map

from workbench.errors import ProblemError
from workbench.problem.lines import line_of_stack
from workbench.problem.spectra import STANDING_IN

aten = torch.ops.aten

Half = Tensor | float | None
"""A real or an imaginary part: numbers of a tensor, one number, or zero."""
_HALF_DTYPES = {torch.complex128: torch.float64, torch.complex64: torch.float32}
_MOST_FACTORS = 8
"""Largest whole power that is written out as a product."""


@dataclass(frozen=True)
class Parts:
    """What stands for a complex tensor, of its shape; at least one part is a tensor."""

    re: Half
    im: Half

    @property
    def one(self) -> Tensor:
        """A part that is there."""
        found = self.re if isinstance(self.re, Tensor) else self.im
        assert isinstance(found, Tensor)
        return found

    @property
    def shape(self) -> torch.Size:
        return self.one.shape

    @property
    def both(self) -> tuple[Tensor, Tensor]:
        """Both as tensors."""
        return _full(self.re, self.one), _full(self.im, self.one)


@dataclass(frozen=True)
class Pairs:
    """``view_as_real`` of a complex tensor, put together only where more is asked of it than one part."""

    parts: Parts

    @cached_property
    def tensor(self) -> Tensor:
        """Of one axis more, of size 2."""
        return torch.stack(self.parts.both, -1)


def has_complex(graph: fx.Graph) -> bool:
    """Whether any value of a graph is complex."""
    return any(_is_complex(value) for node in graph.nodes for value in _flat(node.meta.get("val")))


class InParts(PropagateUnbackedSymInts):
    """Runs a graph, in core operations, on parts. Its inputs and outputs are real.

    Raises ``ProblemError``, with the person's line, for an operation that has no rule here.
    """

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False  # a person's error is a sentence, without the graph's own words

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An input; a constant that is complex comes as pairs."""
        given = super().placeholder(target, args, kwargs)
        if not _is_complex(self._node.meta.get("val")):
            return given
        return Parts(given.select(-1, 0), given.select(-1, 1))

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = self._node.meta.get("val")
        half = _half_of_pairs(target, args)
        if half is not None:
            return half
        args, kwargs = tree_map(_put_together, args), tree_map(_put_together, kwargs)
        given = [value for value in _flat((args, tuple(kwargs.values()))) if isinstance(value, Parts)]
        if not given and not any(map(_is_complex, _flat(made))):
            return super().call_function(target, args, kwargs)
        name = str(target).removeprefix("aten.").partition(".")[0]
        rule = _RULES.get(name)
        if rule is None:
            raise ProblemError(
                f"{self._where}{name} of complex numbers is not supported. "
                "Write this step with real and imaginary parts."
            )
        return _as_traced(rule(target, args, kwargs), made)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().output(target, tree_map(_returned, args), kwargs)

    def run_node(self, n: fx.Node) -> Any:
        self._node = n
        return super().run_node(n)

    @property
    def _where(self) -> str:
        line = line_of_stack(self._node.meta.get("stack_trace") or "")
        return f"line {line}: " if line else ""


def _half_of_pairs(target: Any, args: tuple[Any, ...]) -> Any:
    """``x.real`` and ``x.imag``, which a program has as one of each pair, and complex numbers of pairs."""
    if not args or not isinstance(args[0], Pairs):
        return None
    if target is aten.view_as_complex.default:
        return args[0].parts
    if target is aten.select.int and args[1] in (-1, len(args[0].parts.shape)) and args[2] in (0, 1):
        return args[0].parts.both[args[2]]
    return None


def _put_together(value: Any) -> Any:
    return value.tensor if isinstance(value, Pairs) else value


def _returned(value: Any) -> Any:
    return _put_together(Pairs(value) if isinstance(value, Parts) else value)


def _flat(value: Any) -> list[Any]:
    return [one for part in value for one in _flat(part)] if isinstance(value, list | tuple) else [value]


def _is_complex(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype.is_complex


def _full(half: Half, like: Tensor) -> Tensor:
    if isinstance(half, Tensor):
        return half
    return torch.full_like(like, half or 0.0)


def _as_traced(made: Any, seen: Any) -> Any:
    """Parts as wide as the complex result that was traced, and of one shape."""
    if not isinstance(made, Parts) or not _is_complex(seen):
        return made
    dtype = _HALF_DTYPES.get(seen.dtype, torch.float16)
    re, im = (h.to(dtype) if isinstance(h, Tensor) and h.dtype != dtype else h for h in (made.re, made.im))
    if isinstance(re, Tensor) and isinstance(im, Tensor) and re.shape != im.shape:
        shape = torch.broadcast_shapes(re.shape, im.shape)  # type: ignore[no-untyped-call]
        return Parts(re.expand(shape), im.expand(shape))
    return Parts(re, im)


# ------------------------------------------------------------------------------------ halves


def _neg(x: Half) -> Half:
    return None if x is None else -x


def _add(x: Half, y: Half) -> Half:
    if x is None or y is None:
        return y if x is None else x
    return x + y


def _sub(x: Half, y: Half) -> Half:
    if x is None or y is None:
        return _neg(y) if x is None else x
    return x - y


def _mul(x: Half, y: Half) -> Half:
    if x is None or y is None:
        return None
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return x * y
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        return x * y
    number, tensor = (y, x) if isinstance(x, Tensor) else (x, y)
    return tensor if number == 1 else -tensor if number == -1 else tensor * number


def _of(half: Half, function: Callable[[Any], Any], at_zero: float | None = None) -> Half:
    """A function of one part, which is ``at_zero`` where the part is zero."""
    if half is None:
        return at_zero
    return function(half) if isinstance(half, Tensor) else float(function(torch.tensor(half)))


def _halves(value: Any) -> tuple[Half, Half]:
    match value:
        case Parts():
            return value.re, value.im
        case complex():
            return value.real or None, value.imag or None
        case _:
            return value, None


# ------------------------------------------------------------------------------------ rules

Rule = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def _each(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same done to both parts: moving elements, adding them up."""
    named = {key: _HALF_DTYPES.get(value, value) for key, value in kwargs.items()}
    whole = args[0] if isinstance(args[0], Parts) else Parts(args[0], None)
    sides = [
        None if half is None else target(_full(half, whole.one), *args[1:], **named)
        for half in (whole.re, whole.im)
    ]
    several = next(side for side in sides if side is not None)
    if isinstance(several, Tensor):
        return Parts(*sides)
    rows = [side if side is not None else [None] * len(several) for side in sides]
    return [Parts(*pair) for pair in zip(*rows, strict=True)]


def _padded(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    whole, pad, *value = args
    re, im = _halves(*value) if value else (None, None)
    return Parts(target(whole.both[0], pad, re or 0.0), target(whole.both[1], pad, im or 0.0))


def _joined(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    pieces = [piece if isinstance(piece, Parts) else Parts(piece, None) for piece in args[0]]
    return Parts(*(target([p.both[side] for p in pieces], *args[1:], **kwargs) for side in (0, 1)))


def _sum(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    return _with(_add, args, kwargs)


def _difference(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    return _with(_sub, args, kwargs)


def _with(join: Callable[[Half, Half], Half], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    one, other = _halves(args[0]), _halves(args[1])
    if "alpha" in kwargs:
        other = _halves(_product(None, (args[1], kwargs["alpha"]), {}))
    return Parts(join(one[0], other[0]), join(one[1], other[1]))


def _product(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    (a, b), (c, d) = _halves(args[0]), _halves(args[1])
    return Parts(_sub(_mul(a, c), _mul(b, d)), _add(_mul(a, d), _mul(b, c)))


def _matrix_product(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    """One product for all: rows of both parts below each other, columns beside each other."""
    left, right = _tensors(args[0]), _tensors(args[1])
    rows, columns = left[0][1].shape[-2], right[0][1].shape[-1]
    blocks = target(torch.cat([half for _, half in left], -2), torch.cat([half for _, half in right], -1))
    found: dict[int, Half] = {0: None, 1: None, 2: None}
    for down, (turn, _) in enumerate(left):
        for across, (other, _) in enumerate(right):
            block = blocks.narrow(-2, down * rows, rows).narrow(-1, across * columns, columns)
            found[turn + other] = _add(found[turn + other], block)
    return Parts(_sub(found[0], found[2]), found[1])


def _tensors(value: Parts | Tensor) -> list[tuple[int, Tensor]]:
    """Parts that are there, each with how often it is turned by a right angle: 0 or 1 times."""
    whole = value if isinstance(value, Parts) else Parts(value, None)
    return [
        (turn, _full(half, whole.one)) for turn, half in enumerate((whole.re, whole.im)) if half is not None
    ]


def _quotient(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    one, other = args[:2]
    c, d = _halves(other)
    a, b = _halves(one)
    if d is None:
        return Parts(_of_two(torch.div, a, c), _of_two(torch.div, b, c))
    if c is None:
        return Parts(_of_two(torch.div, b, d), _neg(_of_two(torch.div, a, d)))
    size = _add(_mul(c, c), _mul(d, d))
    re = _add(_mul(a, c), _mul(b, d))
    im = _sub(_mul(b, c), _mul(a, d))
    return Parts(_of_two(torch.div, re, size), _of_two(torch.div, im, size))


def _of_two(function: Callable[[Any, Any], Any], x: Half, y: Half) -> Half:
    return None if x is None else function(x, y) if isinstance(x, Tensor) or isinstance(y, Tensor) else x / y  # type: ignore[operator]


def _reciprocal(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    return _quotient(None, (1.0, args[0]), {})


def _power(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    whole, to = args
    if isinstance(to, float) and to.is_integer():
        to = int(to)
    if isinstance(to, int) and 0 < abs(to) <= _MOST_FACTORS:
        made: Parts = whole
        for _ in range(abs(to) - 1):
            made = _product(None, (made, whole), {})
        return made if to > 0 else _reciprocal(None, (made,), {})
    if not isinstance(whole, Parts | Tensor):
        return _exponential(None, (_product(None, (to, cmath.log(whole)), {}),), {})
    base = whole if isinstance(whole, Parts) else Parts(whole, None)
    return _exponential(None, (_product(None, (_logarithm(None, (base,), {}), to), {}),), {})


def _length(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    whole: Parts = args[0]
    re, im = whole.re, whole.im
    if re is None or im is None:
        return whole.one.abs()
    square = _add(_mul(re, re), _mul(im, im))
    assert isinstance(square, Tensor)
    return square.sqrt()


def _direction(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    re, im = args[0].both
    return torch.atan2(im, re)


def _unit(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    length = _length(None, args, {})
    safe = torch.where(length == 0, torch.ones_like(length), length)
    return Parts(*(_of_two(torch.div, half, safe) for half in _halves(args[0])))


def _exponential(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    re, im = _halves(args[0])
    large = _of(re, torch.exp, 1.0)
    return Parts(_mul(large, _of(im, torch.cos, 1.0)), _mul(large, _of(im, torch.sin)))


def _logarithm(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    return Parts(_length(None, args, {}).log(), _direction(None, args, {}))


def _root(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    length = _length(None, args, {})
    re, im = args[0].both
    up, side = ((length + re) / 2).clamp(min=0).sqrt(), ((length - re) / 2).clamp(min=0).sqrt()
    return Parts(up, torch.where(im < 0, -side, side))


def _cosine(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    re, im = args[0].both
    return Parts(re.cos() * im.cosh(), -(re.sin() * im.sinh()))


def _sine(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    re, im = args[0].both
    return Parts(re.sin() * im.cosh(), re.cos() * im.sinh())


def _conjugate(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    return Parts(args[0].re, _neg(args[0].im))


def _negative(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    return Parts(_neg(args[0].re), _neg(args[0].im))


def _from_polar(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    length, angle = args[:2]
    return Parts(length * angle.cos(), length * angle.sin())


def _together(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    return Parts(args[0], args[1])


def _looked_at(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    pairs = args[0]
    return Parts(pairs.select(-1, 0), pairs.select(-1, 1))


def _side_by_side(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Pairs:
    return Pairs(args[0])


def _chosen(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    mask, one, other = args
    like = next(value.one for value in (one, other) if isinstance(value, Parts))
    sides = zip(_halves(one), _halves(other), strict=True)
    return Parts(*(torch.where(mask, _scalar(x, like), _scalar(y, like)) for x, y in sides))


def _scalar(half: Half, like: Tensor) -> Tensor:
    return half if isinstance(half, Tensor) else torch.full((), half or 0.0, dtype=like.dtype)


def _compared(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    (a, b), (c, d) = _halves(args[0]), _halves(args[1])
    like = next(value.one for value in args[:2] if isinstance(value, Parts))
    same = (_scalar(a, like) == _scalar(c, like)) & (_scalar(b, like) == _scalar(d, like))
    return same if "eq" in str(target) else ~same


def _cast(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Between widths of complex numbers, to them and, without the imaginary part, from them."""
    dtype: torch.dtype | None = kwargs.get("dtype")
    half = None if dtype is None else _HALF_DTYPES.get(dtype, dtype)
    re, im = _halves(args[0])
    if half is None:
        return Parts(re, im)
    sides = [side.to(half) if isinstance(side, Tensor) else side for side in (re, im)]
    return Parts(*sides) if dtype in _HALF_DTYPES else _full(sides[0], args[0].one.to(half))


def _copied(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    """Of a number's or a smaller tensor's values, as many as the first operand has."""
    first = args[0].one if isinstance(args[0], Parts) else args[0]
    return Parts(*(None if h is None else target(first, _scalar(h, first)) for h in _halves(args[1])))


_PUT_AT = {"slice_scatter": 1, "select_scatter": 1, "diagonal_scatter": 1, "index_put": 2}
"""Where an operation has what it puts among the elements of its first operand."""


def _placed(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    place = _PUT_AT[str(target).removeprefix("aten.").partition(".")[0]]
    among, what = _halves(args[0]), _halves(args[place])
    like = next(value.one for value in (args[0], args[place]) if isinstance(value, Parts))
    shapes = [value.one if isinstance(value, Parts) else value for value in (args[0], args[place])]
    sides: list[Half] = []
    for one, other in zip(among, what, strict=True):
        if one is None and other is None:
            sides.append(None)
            continue
        own, put = (
            _full(half, shape.to(like.dtype)) for half, shape in ((one, shapes[0]), (other, shapes[1]))
        )
        sides.append(target(own, *args[1:place], put, *args[place + 1 :], **kwargs))
    return Parts(*sides)


def _filled(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    """``full`` and ``full_like``, of a size or of a tensor."""
    first = args[0].one if isinstance(args[0], Parts) else args[0]
    named = {key: _HALF_DTYPES.get(one, one) for key, one in kwargs.items()}
    re, im = _halves(complex(args[1]))
    return Parts(target(first, re or 0.0, **named), None if im is None else target(first, im, **named))


def _one_number(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    named = {key: _HALF_DTYPES.get(one, one) for key, one in kwargs.items()}
    re, im = _halves(complex(args[0]))
    return Parts(target(re or 0.0, **named), None if im is None else target(im, **named))


def _size(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0].shape[args[1]]


def _item(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0][args[1]]


def _spectrum(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A Fourier transform, which is a library's; of a real number, of complex ones, or back to real ones."""
    name = str(target).removeprefix("aten.").partition(".")[0]
    operand = torch.stack(args[0].both, -1) if isinstance(args[0], Parts) else args[0]
    made = STANDING_IN[name](operand, *args[1:], **kwargs)
    return made if name == "_fft_c2r" else Parts(made.select(-1, 0), made.select(-1, 1))


def _nothing(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    return None


_MOVED = (
    "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "expand", "slice", "select", "unsqueeze",
    "squeeze", "alias", "clone", "detach", "flip", "roll", "index", "index_select", "gather", "repeat",
    "unfold", "diagonal", "tril", "triu", "embedding", "split_with_sizes", "split", "unbind", "sum", "mean",
    "cumsum", "lift_fresh_copy", "resolve_conj", "resolve_neg", "contiguous",
)  # fmt: skip
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_MOVED, _each),
    **dict.fromkeys(("_conj", "_conj_physical", "conj_physical"), _conjugate),
    **dict.fromkeys(("neg", "_neg_view"), _negative),
    **dict.fromkeys(("mm", "bmm"), _matrix_product),
    **dict.fromkeys(("full", "full_like"), _filled),
    **dict.fromkeys(("cat", "stack"), _joined),
    **dict.fromkeys(("eq", "ne"), _compared),
    **dict.fromkeys(STANDING_IN, _spectrum),
    **dict.fromkeys(_PUT_AT, _placed),
    **dict.fromkeys(("_assert_tensor_metadata",), _nothing),
    "add": _sum, "copy": _copied, "sub": _difference, "mul": _product, "div": _quotient,
    "reciprocal": _reciprocal, "pow": _power, "abs": _length, "angle": _direction, "sgn": _unit,
    "exp": _exponential, "log": _logarithm, "sqrt": _root, "cos": _cosine, "sin": _sine, "polar": _from_polar,
    "complex": _together, "view_as_complex": _looked_at, "view_as_real": _side_by_side, "where": _chosen,
    "_to_copy": _cast, "constant_pad_nd": _padded, "scalar_tensor": _one_number, "sym_size": _size,
    "<built-in function getitem>": _item,
}  # fmt: skip
