"""What a pointwise ATen operation computes, in the words of the expression trees.

Owns the table from ATen names to expressions and the types they compute in: 16-bit floats in float32,
as the precision contract says. Never prints CUDA.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workbench.model import DTYPE_BYTES, Arg, DType, OpNode
from workbench.playbook.ir.expr import Apply, Const, Expr, Pool

Scalar = bool | int | float | str
"""A number, or text: an integer expression over size symbols."""

VIEWS = frozenset(["view", "permute", "expand", "slice", "select", "unsqueeze", "squeeze", "alias", "clone"])
"""Operations that move elements and compute none, one operand and one result."""
MOST_INLINE = 4
"""Pieces of a concatenation up to which each element chooses its piece where it is used."""

_ORDER: tuple[DType, ...] = ("bool", "u8", "i8", "i16", "i32", "i64", "f32", "f64")
_NARROW = frozenset(["u8", "i8", "i16"])
_RANGES: Mapping[DType, tuple[int, int]] = {
    "u8": (0, 255), "i8": (-128, 127), "i16": (-(2**15), 2**15 - 1), "i32": (-(2**31), 2**31 - 1),
}  # fmt: skip


def compute_type(dtype: DType) -> DType:
    """Type values have in registers."""
    return "f32" if dtype in ("f16", "bf16") else dtype


def is_float(dtype: DType) -> bool:
    return dtype in ("f64", "f32", "f16", "bf16")


@dataclass(frozen=True)
class Operand:
    """An argument of a pointwise operation: an expression, or a scalar that takes its partner's type."""

    expr: Expr | None = None
    scalar: Scalar | None = None

    @property
    def dtype(self) -> DType:
        if self.expr is not None:
            return self.expr.dtype
        if isinstance(self.scalar, bool):
            return "bool"
        return "f32" if isinstance(self.scalar, float) else "i64"


Rule = Callable[["Maker", Sequence[Operand], Mapping[str, Arg]], Expr]


class Maker:
    """Builds the expression of one node; ``dtype`` is the type the result computes in."""

    def __init__(self, pool: Pool, dtype: DType, name: str) -> None:
        self.pool = pool
        self.dtype = dtype
        self.name = name

    def common(self, operands: Sequence[Operand]) -> DType:
        """Promoted type: of the tensors, unless a scalar belongs to a wider kind (bool, int, float)."""
        tensors: list[DType] = [operand.dtype for operand in operands if operand.expr is not None]
        best: DType = "f32" if not tensors else _ORDER[max(_ORDER.index(dtype) for dtype in tensors)]
        for operand in operands:
            if operand.expr is None and _kind(operand.dtype) > _kind(best):
                best = operand.dtype
        return best

    def value(self, operand: Operand, dtype: DType) -> Expr:
        """The operand converted to a type."""
        if operand.expr is not None:
            return self.cast(operand.expr, dtype)
        scalar = operand.scalar
        assert scalar is not None
        if isinstance(scalar, str):
            return self.pool.const(scalar, dtype)
        if dtype == "bool":
            return self.pool.const(bool(scalar), dtype)
        return self.pool.const(float(scalar) if is_float(dtype) else _wrapped(int(scalar), dtype), dtype)

    def cast(self, expr: Expr, dtype: DType) -> Expr:
        if expr.dtype == dtype:
            return expr
        return self.cast(nearest(self.pool, expr, dtype) or self.pool.apply("cast", dtype, (expr,)), dtype)

    def op(self, op: str, *args: Expr, dtype: DType | None = None) -> Expr:
        """An operation; integers narrower than 32 bits wrap as they do in memory."""
        result = dtype or self.dtype
        if result in _NARROW and op not in ("where", "larger", "smaller"):
            wide = self.pool.apply(op, "i32", args, self.name)
            return self.pool.apply("cast", result, (wide,))
        return self.pool.apply(op, result, args, self.name)

    def number(self, value: float) -> Expr:
        return self.value(Operand(scalar=value), self.dtype)


def nearest(pool: Pool, expr: Expr, dtype: DType) -> Expr | None:
    """The whole number next to what is rounded, kept between whole bounds and converted to a type.

    Bounds that are whole numbers may come first, and then the conversion rounds: one instruction instead of
    two, of those that a multiprocessor makes fewer of in a clock. None for anything else.
    """
    bounds = list[Apply]()
    while isinstance(expr, Apply) and expr.op in ("larger", "smaller") and _is_whole(expr.args[1], dtype):
        bounds.append(expr)
        expr = expr.args[0]
    if not (isinstance(expr, Apply) and expr.op == "round" and expr.dtype == "f32"):
        return None
    if {bound.op for bound in bounds} != {"larger", "smaller"}:
        return None
    (value,) = expr.args
    for bound in reversed(bounds):
        value = pool.apply(bound.op, "f32", (value, bound.args[1]), bound.name)
    return pool.apply("nearest", "i32", (value,), expr.name)


def _is_whole(bound: Expr, dtype: DType) -> bool:
    """True for a number that the type has, of those of at most 32 bits."""
    if not isinstance(bound, Const) or not isinstance(bound.value, float) or dtype not in _RANGES:
        return False
    low, high = _RANGES[dtype]
    return bound.value.is_integer() and low <= bound.value <= high


def constant(pool: Pool, value: Arg, dtype: DType) -> Expr:
    """A number as an element of a tensor would hold it."""
    assert isinstance(value, bool | int | float)
    return Maker(pool, dtype, "").value(Operand(scalar=value), dtype)


def _wrapped(value: int, dtype: DType) -> int:
    """The number as a tensor of the type would hold it: -7 is 249 in a byte."""
    bits = 8 * DTYPE_BYTES[dtype]
    wrapped = value & (1 << bits) - 1
    return wrapped if dtype == "u8" or wrapped < 1 << bits - 1 else wrapped - (1 << bits)


def _kind(dtype: DType) -> int:
    return 0 if dtype == "bool" else 2 if is_float(dtype) else 1


def _plain(op: str) -> Rule:
    def rule(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
        return make.op(op, *(make.value(operand, make.dtype) for operand in operands))

    return rule


def _compare(op: str) -> Rule:
    def rule(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
        dtype = make.common(operands)
        return make.op(op, *(make.value(operand, dtype) for operand in operands), dtype="bool")

    return rule


def _logical(op: str) -> Rule:
    def rule(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
        return make.op(op, *(make.value(operand, "bool") for operand in operands), dtype="bool")

    return rule


def _bitwise(op: str, logical: str) -> Rule:
    def rule(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
        return (_logical(logical) if make.dtype == "bool" else _plain(op))(make, operands, kwargs)

    return rule


def _shift(direction: str) -> Rule:
    """By a number of places that is known to be in range, C++'s own; else by torch's rule for the others."""

    def rule(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
        left, right = (make.value(operand, make.dtype) for operand in operands)
        by = operands[1].scalar
        known = isinstance(by, int) and 0 <= by < 8 * DTYPE_BYTES[make.dtype]
        return make.op(f"shift_{direction}" if known else f"shifted_{direction}", left, right)

    return rule


def _sum(op: str) -> Rule:
    def rule(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
        left, right = (make.value(operand, make.dtype) for operand in operands[:2])
        scale = operands[2].scalar if len(operands) > 2 else kwargs.get("alpha", 1)
        if isinstance(scale, (int, float)) and scale != 1:
            right = make.op("mul", right, make.number(scale))
        return make.op(op, left, right)

    return rule


def _divide(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
    left, right = (make.value(operand, make.dtype) for operand in operands[:2])
    mode = kwargs.get("rounding_mode")
    if mode is None:
        return make.op("div", left, right)
    if is_float(make.dtype) and mode != "floor":
        return make.op("trunc", make.op("div", left, right))
    rounds_down = mode == "floor" and make.dtype != "u8"
    return make.op("floordiv" if rounds_down else "div", left, right)


def _remainder(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
    return _plain("fmod" if make.dtype == "u8" else "remainder")(make, operands, kwargs)


def _sign(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
    if make.dtype == "u8":
        return make.op("smaller", make.value(operands[0], make.dtype), make.number(1))
    return _plain("sign")(make, operands, kwargs)


def _floor_divide(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
    return _divide(make, operands, {"rounding_mode": "floor"})


def _multiplied(make: Maker, base: Expr, times: int) -> Expr:
    """A whole power by repeated squaring: with three products at most a power of eight errs by 3.5 units."""
    if times == 1:
        return base
    square = make.op("mul", base, base)
    even = _multiplied(make, square, times // 2)
    return make.op("mul", even, base) if times % 2 else even


def _power(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
    base = make.value(operands[0], make.dtype)
    if isinstance(base, Const) and base.value == 2 and is_float(make.dtype):
        return make.op("exp2", make.value(operands[1], make.dtype))  # a fifth of the instructions, and exact
    exponent = operands[1].scalar
    match exponent:
        case bool() | None | str():
            pass
        case 0:
            return make.number(1)
        case 1:
            return base
        case 2:
            return make.op("mul", base, base)
        case 3 | 4 | 5 | 6 | 7 | 8:
            return _multiplied(make, base, int(exponent))
        case 0.5 if is_float(make.dtype):
            return make.op("sqrt", base)
        case -0.5 if is_float(make.dtype):
            return make.op("rsqrt", base)
        case -1 if is_float(make.dtype):
            return make.op("div", make.number(1), base)
    return make.op("pow", base, make.value(operands[1], make.dtype))


def _where(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
    condition, yes, no = operands
    return make.op(
        "where", make.value(condition, "bool"), make.value(yes, make.dtype), make.value(no, make.dtype)
    )


def _clamp(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
    low: Operand | None = operands[1] if len(operands) > 1 else _keyword(kwargs, "min")
    high: Operand | None = operands[2] if len(operands) > 2 else _keyword(kwargs, "max")
    result = make.value(operands[0], make.dtype)
    if low is not None and (low.expr is not None or low.scalar is not None):
        result = make.op("larger", result, make.value(low, make.dtype))
    if high is not None and (high.expr is not None or high.scalar is not None):
        result = make.op("smaller", result, make.value(high, make.dtype))
    return result


def _keyword(kwargs: Mapping[str, Arg], name: str) -> Operand | None:
    value = kwargs.get(name)
    return Operand(scalar=value) if isinstance(value, (int, float)) else None


def _clamp_min(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
    return _clamp(make, operands[:2], {})


def _clamp_max(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
    return _clamp(make, (operands[0], Operand(), operands[1]), {})


def _extreme(of_floats: str, of_integers: str) -> Rule:
    """The larger or smaller of two, and of a number and NaN the number."""

    def rule(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
        return _plain(of_floats if is_float(make.dtype) else of_integers)(make, operands, kwargs)

    return rule


def _relu(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
    return make.op("larger", make.value(operands[0], make.dtype), make.number(0))


def _reciprocal(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
    return make.op("div", make.number(1), make.value(operands[0], make.dtype))


def _sigmoid(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
    exponential = make.op("exp", make.op("neg", make.value(operands[0], make.dtype)))
    return make.op("div", make.number(1), make.op("add", make.number(1), exponential))


def _log_of_sum(power: str, of_two: float, scale: float) -> Rule:
    """The logarithm of a sum of two powers: the larger exponent, and what a power of no more than 1 adds.

    Equal ones are told apart: two that are minus infinity have no difference.
    """

    def rule(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
        first, second = (make.value(one, make.dtype) for one in operands)
        most, least = make.op("larger", first, second), make.op("smaller", first, second)
        more = make.op("log1p", make.op(power, make.op("sub", least, most)))
        more = more if scale == 1 else make.op("mul", more, make.number(scale))
        same = make.op("eq", least, most, dtype="bool")
        return make.op("add", most, make.op("where", same, make.number(of_two), more))

    return rule


def _square(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
    value = make.value(operands[0], make.dtype)
    return make.op("mul", value, value)


def _test(op: str) -> Rule:
    """Of a float as it is: a double of 1e300 is finite, and infinite as a float."""

    def rule(make: Maker, operands: Sequence[Operand], kwargs: Mapping[str, Arg]) -> Expr:
        dtype = operands[0].dtype
        return make.op(op, make.value(operands[0], dtype if is_float(dtype) else "f32"), dtype="bool")

    return rule


_PLAIN = [
    "abs", "neg", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos",
    "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
    "erfinv", "lgamma", "floor", "ceil", "round", "trunc", "mul", "atan2", "hypot", "fmod",
    "copysign",
]  # fmt: skip

_CALLED = {"special_erfcx": "erfcx", "special_ndtri": "normcdfinv"}
"""Functions that CUDA has under other names."""

RULES: Mapping[str, Rule] = {
    **{name: _plain(name) for name in _PLAIN},
    **{name: _plain(op) for name, op in _CALLED.items()},
    **{name: _compare(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "logical_and": _logical("and"),
    "logical_or": _logical("or"),
    "logical_xor": _logical("ne"),
    "logical_not": _logical("not"),
    "mul": _bitwise("mul", "and"),
    "bitwise_and": _bitwise("bit_and", "and"),
    "bitwise_or": _bitwise("bit_or", "or"),
    "bitwise_xor": _bitwise("bit_xor", "ne"),
    "bitwise_not": _bitwise("bit_not", "not"),
    **dict.fromkeys(("__lshift__", "bitwise_left_shift"), _shift("left")),
    **dict.fromkeys(("__rshift__", "bitwise_right_shift"), _shift("right")),
    "add": _sum("add"),
    "sub": _sum("sub"),
    "div": _divide,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "pow": _power,
    "where": _where,
    "clamp": _clamp,
    "clamp_min": _clamp_min,
    "clamp_max": _clamp_max,
    "maximum": _plain("larger"),
    "minimum": _plain("smaller"),
    "fmax": _extreme("fmax", "larger"),
    "fmin": _extreme("fmin", "smaller"),
    "relu": _relu,
    "reciprocal": _reciprocal,
    "sigmoid": _sigmoid,
    "square": _square,
    "logaddexp": _log_of_sum("exp", math.log(2), 1),
    "logaddexp2": _log_of_sum("exp2", 1, 1 / math.log(2)),
    "sign": _sign,
    "sgn": _sign,
    "isnan": _test("isnan"),
    "isinf": _test("isinf"),
    "signbit": _test("signbit"),
}
"""Rule by ATen name without namespace and overload."""

_FLOATS: tuple[DType, ...] = ("f64", "f32", "f16", "bf16")
BITS_OF: Mapping[str, DType] = {f"bits_{dtype}": dtype for dtype in _FLOATS}
"""Operations that give the bits of a float, as it is in memory, and its type there."""
FLOAT_OF: Mapping[str, DType] = {f"from_bits_{dtype}": dtype for dtype in _FLOATS}
"""Operations that give the float that bits are, and its type in memory."""

_CASTS = {"aten._to_copy.default": True, "prims.convert_element_type.default": False}


def is_pointwise(node: OpNode) -> bool:
    """True when the table has a rule for the node and all its tensors are of types it computes in."""
    namespace, name = node.op.split(".")[:2]
    if "shift" in name and is_float(node.outs[0].dtype):  # torch multiplies by a power of two
        return False
    return node.op in _CASTS or (namespace in ("aten", "prims") and name in RULES)


def unrounded(expr: Expr, dtype: DType) -> Expr:
    """What is stored as ``dtype``, without a rounding to that type: the store rounds.

    Rounded twice, it would come out the same, through conversions at a quarter of the speed
    (docs/notes/2026-11-23-what-the-compiler-knows.md).
    """
    while isinstance(expr, Apply) and expr.op == f"round_{dtype}":
        (expr,) = expr.args
    return expr


def pointwise(pool: Pool, node: OpNode, operands: Sequence[Operand]) -> Expr:
    """Expression of a node whose operands were already broadcast to its shape."""
    dtype = node.outs[0].dtype
    make = Maker(pool, compute_type(dtype), node.name)
    if node.op in _CASTS:
        value = make.value(operands[0], make.dtype)
        rounds = _CASTS[node.op] and dtype in ("f16", "bf16")
        return pool.apply(f"round_{dtype}", "f32", (value,)) if rounds else value
    return RULES[node.base_name](make, operands, dict(node.kwargs))
