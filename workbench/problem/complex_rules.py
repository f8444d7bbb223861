"""Operations on complex numbers in real ones, one rule for each.

A rule takes what ATen's operation takes, with ``Parts`` in the place of complex tensors, and the operation
itself for what is done to both parts alike. Which values of a graph are complex, in_parts.py decides.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from workbench.problem.complex_parts import (
    HALF_DTYPES,
    Half,
    Pairs,
    Parts,
    added,
    full,
    halves,
    multiplied,
    negated,
    of_one,
    of_pairs,
    subtracted,
)
from workbench.problem.few_axes import MOST as FEW
from workbench.problem.spectra import STANDING_IN

_MOST_FACTORS = 8
"""Largest whole power that is written out as a product."""

Rule = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def _each(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same done to both parts: moving elements, adding them up."""
    named = {key: HALF_DTYPES.get(value, value) for key, value in kwargs.items()}
    whole = args[0] if isinstance(args[0], Parts) else Parts(args[0], None)
    sides = [
        None if half is None else target(full(half, whole.one), *args[1:], **named)
        for half in (whole.re, whole.im)
    ]
    several = next(side for side in sides if side is not None)
    if isinstance(several, Tensor):
        return Parts(*sides)
    rows = [side if side is not None else [None] * len(several) for side in sides]
    return [Parts(*pair) for pair in zip(*rows, strict=True)]


def _padded(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    whole, pad, *value = args
    re, im = halves(*value) if value else (None, None)
    return Parts(target(whole.both[0], pad, re or 0.0), target(whole.both[1], pad, im or 0.0))


def _joined(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    pieces = [piece if isinstance(piece, Parts) else Parts(piece, None) for piece in args[0]]
    return Parts(*(target([p.both[side] for p in pieces], *args[1:], **kwargs) for side in (0, 1)))


def _sum(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    return _joined_with(added, args, kwargs)


def _difference(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    return _joined_with(subtracted, args, kwargs)


def _joined_with(join: Callable[[Half, Half], Half], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    one, other = halves(args[0]), halves(args[1])
    if "alpha" in kwargs:
        other = halves(_product(None, (args[1], kwargs["alpha"]), {}))
    return Parts(join(one[0], other[0]), join(one[1], other[1]))


def _product(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    (a, b), (c, d) = halves(args[0]), halves(args[1])
    return Parts(subtracted(multiplied(a, c), multiplied(b, d)), added(multiplied(a, d), multiplied(b, c)))


def _matrix_product(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    """One product where a library makes it: of both parts beside each other with a matrix that has each part
    twice. A product of each part with each where it is written out or summed along rows, so that what its
    operands are made of can be made in its kernel."""
    (a, b), (c, d) = _matrices(args[0]), _matrices(args[1])
    if a is not None and b is not None and c is not None and d is not None and not _is_thin(a, c):
        right = torch.cat((torch.cat((c, d), -1), torch.cat((-d, c), -1)), -2)
        both = target(torch.cat((a, b), -1), right)
        columns = c.shape[-1]
        return Parts(both.narrow(-1, 0, columns), both.narrow(-1, columns, columns))

    def product(x: Tensor | None, y: Tensor | None) -> Half:
        return None if x is None or y is None else target(x, y)

    return Parts(subtracted(product(a, c), product(b, d)), added(product(a, d), product(b, c)))


def _is_thin(left: Tensor, right: Tensor) -> bool:
    """True where one is a vector, or the sums are of few terms."""
    rows, terms, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    return any(
        isinstance(size, int) and size <= most for size, most in ((rows, 1), (columns, 1), (terms, FEW))
    )


def _matrices(value: Parts | Tensor) -> tuple[Tensor | None, Tensor | None]:
    whole = value if isinstance(value, Parts) else Parts(value, None)
    re, im = (None if half is None else full(half, whole.one) for half in (whole.re, whole.im))
    return re, im


def _quotient(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    one, other = args[:2]
    c, d = halves(other)
    a, b = halves(one)
    if d is None:
        return Parts(_of_two(torch.div, a, c), _of_two(torch.div, b, c))
    if c is None:
        return Parts(_of_two(torch.div, b, d), negated(_of_two(torch.div, a, d)))
    size = added(multiplied(c, c), multiplied(d, d))
    re = added(multiplied(a, c), multiplied(b, d))
    im = subtracted(multiplied(b, c), multiplied(a, d))
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
    square = added(multiplied(re, re), multiplied(im, im))
    assert isinstance(square, Tensor)
    return square.sqrt()


def _direction(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    re, im = args[0].both
    return torch.atan2(im, re)


def _unit(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    length = _length(None, args, {})
    safe = torch.where(length == 0, torch.ones_like(length), length)
    return Parts(*(_of_two(torch.div, half, safe) for half in halves(args[0])))


def _exponential(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    whole: Parts = args[0]
    large = of_one(whole, whole.re, torch.exp, 1.0)
    cosine, sine = of_one(whole, whole.im, torch.cos, 1.0), of_one(whole, whole.im, torch.sin)
    return Parts(multiplied(large, cosine), multiplied(large, sine))


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
    return Parts(args[0].re, negated(args[0].im))


def _negative(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    return Parts(negated(args[0].re), negated(args[0].im))


def _from_polar(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    length, angle = args[:2]
    return Parts(length * angle.cos(), length * angle.sin())


def _together(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    return Parts(args[0], args[1])


def _looked_at(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    return of_pairs(args[0])


def _side_by_side(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Pairs:
    return Pairs(args[0])


def _chosen(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    mask, one, other = args
    like = next(value.one for value in (one, other) if isinstance(value, Parts))
    sides = zip(halves(one), halves(other), strict=True)
    return Parts(*(torch.where(mask, _scalar(x, like), _scalar(y, like)) for x, y in sides))


def _scalar(half: Half, like: Tensor) -> Tensor:
    return half if isinstance(half, Tensor) else torch.full((), half or 0.0, dtype=like.dtype)


def _compared(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    (a, b), (c, d) = halves(args[0]), halves(args[1])
    like = next(value.one for value in args[:2] if isinstance(value, Parts))
    same = (_scalar(a, like) == _scalar(c, like)) & (_scalar(b, like) == _scalar(d, like))
    return same if "eq" in str(target) else ~same


def _cast(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Between widths of complex numbers, to them and, without the imaginary part, from them."""
    dtype: torch.dtype | None = kwargs.get("dtype")
    half = None if dtype is None else HALF_DTYPES.get(dtype, dtype)
    re, im = halves(args[0])
    if half is None:
        return Parts(re, im)
    sides = [side.to(half) if isinstance(side, Tensor) else side for side in (re, im)]
    return Parts(*sides) if dtype in HALF_DTYPES else full(sides[0], args[0].one.to(half))


def _copied(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    """Of a number's or a smaller tensor's values, as many as the first operand has."""
    first = args[0].one if isinstance(args[0], Parts) else args[0]
    return Parts(*(None if h is None else target(first, _scalar(h, first)) for h in halves(args[1])))


_PUT_AT = {"slice_scatter": 1, "select_scatter": 1, "diagonal_scatter": 1, "index_put": 2}
"""Where an operation has what it puts among the elements of its first operand."""


def _placed(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    place = _PUT_AT[str(target).removeprefix("aten.").partition(".")[0]]
    among, what = halves(args[0]), halves(args[place])
    like = next(value.one for value in (args[0], args[place]) if isinstance(value, Parts))
    shapes = [value.one if isinstance(value, Parts) else value for value in (args[0], args[place])]
    sides: list[Half] = []
    for one, other in zip(among, what, strict=True):
        if one is None and other is None:
            sides.append(None)
            continue
        own, put = (
            full(half, shape.to(like.dtype)) for half, shape in ((one, shapes[0]), (other, shapes[1]))
        )
        sides.append(target(own, *args[1:place], put, *args[place + 1 :], **kwargs))
    return Parts(*sides)


def _filled(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    """``full`` and ``full_like``, of a size or of a tensor."""
    first = args[0].one if isinstance(args[0], Parts) else args[0]
    named = {key: HALF_DTYPES.get(one, one) for key, one in kwargs.items()}
    re, im = halves(complex(args[1]))
    return Parts(target(first, re or 0.0, **named), None if im is None else target(first, im, **named))


def _one_number(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
    named = {key: HALF_DTYPES.get(one, one) for key, one in kwargs.items()}
    re, im = halves(complex(args[0]))
    return Parts(target(re or 0.0, **named), None if im is None else target(im, **named))


def _size(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0].shape[args[1]]


def _item(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0][args[1]]


def _spectrum(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A Fourier transform, which is a library's; of a real number, of complex ones, or back to real ones."""
    name = str(target).removeprefix("aten.").partition(".")[0]
    given, *rest = args
    if name == "_fft_c2c" and isinstance(given, Parts) and given.im is None and rest[-1] is True:
        # As fft2 makes real numbers complex first: what is real has a transform of its own.
        name, args = "_fft_r2c", (given.one, *rest[:-1], False)
    operand = args[0].beside if isinstance(args[0], Parts) else args[0]
    made = STANDING_IN[name](operand, *args[1:], **kwargs)
    return made if name == "_fft_c2r" else of_pairs(made)


def _nothing(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    return None


_MOVED = (
    "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "expand", "slice", "select", "unsqueeze",
    "squeeze", "alias", "clone", "detach", "flip", "roll", "index", "index_select", "gather", "repeat",
    "unfold", "diagonal", "tril", "triu", "embedding", "split_with_sizes", "split", "unbind", "sum", "mean",
    "cumsum", "lift_fresh_copy", "resolve_conj", "resolve_neg", "contiguous",
)  # fmt: skip
RULES: Mapping[str, Rule] = {
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
