"""Expressions as CUDA text: operators with as few parentheses as C++ needs, math functions, numbers.

Owns the spelling of operations and types. Never decides what is computed or when.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.model import DType
from workbench.playbook.ir.expr import Apply, Const
from workbench.playbook.ir.operations import BITS_OF, FLOAT_OF, is_float

CTYPES: Mapping[str, str] = {
    "f64": "double", "f32": "float", "f16": "__half", "bf16": "__nv_bfloat16", "i64": "long long",
    "i32": "int", "i16": "short", "i8": "signed char", "u8": "unsigned char", "bool": "bool",
}  # fmt: skip

ATOM, UNARY, PRODUCT, SUM, _SHIFT = 16, 15, 13, 12, 11
_INFIX = {
    "mul": ("*", 13), "div": ("/", 13), "add": ("+", 12), "sub": ("-", 12), "lt": ("<", 10), "le": ("<=", 10),
    "gt": (">", 10), "ge": (">=", 10), "eq": ("==", 9), "ne": ("!=", 9), "bit_and": ("&", 8),
    "bit_xor": ("^", 7), "bit_or": ("|", 6), "and": ("&&", 5), "or": ("||", 4), "shift_left": ("<<", 11),
    "shift_right": (">>", 11),
}  # fmt: skip
_CHAINS: Mapping[str, tuple[str, ...]] = {"add": ("+", "-"), "mul": ("*",), "and": ("&&",), "or": ("||",)}
"""What may stand to the right without parentheses where nothing is rounded; a * (b / c) is not a * b / c."""
_PREFIX = {"neg": "-", "not": "!", "bit_not": "~"}
_CONDITIONAL = 3
_MATH = {
    "abs": "fabs", "round": "rint", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log",
    "log2": "log2", "log10": "log10", "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin",
    "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf",
    "erf_of_16_bits": "erf",
    "erfc": "erfc", "erfinv": "erfinv", "lgamma": "lgamma", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "atan2": "atan2", "hypot": "hypot", "fmod": "fmod", "copysign": "copysign",
    "pow": "pow", "fmax": "fmax", "fmin": "fmin", "erfcx": "erfcx",
    "normcdfinv": "normcdfinv",
}  # fmt: skip
_FAST = {
    "exp": "__expf", "log": "__logf", "sin": "__sinf", "cos": "__cosf", "pow": "__powf",
    "erf_of_16_bits": "fast_erf",
}  # fmt: skip
_HELPED: Mapping[str, str] = {
    "larger": "larger",
    "smaller": "smaller",
    "sign": "sign",
    "shifted_left": "left_by",
    "shifted_right": "right_by",
    "remainder": "python_mod",
    "floordiv": "floordiv",
    "quotient": "quotient",
    "over": "over",
    "over_shared": "over_shared",
    "usual_scale": "usual_scale",
    "round_bf16": "nearest_bf16",
}
"""Operations that are functions of the file itself."""
_VARIANTS: Mapping[tuple[str, DType], str] = {
    ("remainder", "f32"): "python_mod_f32",
    ("remainder", "f64"): "python_mod_f64",
    ("floordiv", "f32"): "floordiv_f32",
    ("floordiv", "f64"): "floordiv_f64",
}
"""Texts in cuda_helpers.py of functions that are overloaded, where the text is not the function's name."""
_PLAIN = frozenset(["quotient", "over", "over_shared", "usual_scale", "round_bf16"])
"""Functions of the file that are no templates, as the overloads are none."""

_BITS: Mapping[DType, str] = {
    "f64": "__double_as_longlong", "f32": "__float_as_int", "f16": "__half_as_short",
    "bf16": "__bfloat16_as_short",
}  # fmt: skip
_FROM_BITS: Mapping[DType, str] = {
    "f64": "__longlong_as_double", "f32": "__int_as_float", "f16": "__short_as_half",
    "bf16": "__short_as_bfloat16",
}  # fmt: skip


def helper_of(expr: Apply, fast: bool = False) -> str | None:
    """The text in cuda_helpers.py that an operation needs; None when C++ or CUDA has the operation."""
    if fast and expr.op == "erf_of_16_bits":
        return _FAST[expr.op]
    if expr.op == "cast":
        return "byte_of" if expr.dtype == "u8" and is_float(expr.args[0].dtype) else None
    if expr.op == "pow" and not is_float(expr.dtype):
        return "integer_power"
    return _VARIANTS.get((expr.op, expr.dtype)) or _HELPED.get(expr.op)


@dataclass(frozen=True)
class Text:
    """A C++ expression and how strongly its outermost operator binds."""

    code: str
    strength: int = ATOM
    sign: str = ""
    """The outermost operator of two operands; empty where it is another or not known."""

    def within(self, least: int) -> str:
        """The code, in parentheses where the context binds more strongly."""
        return self.code if self.strength >= least else f"({self.code})"


def spell(expr: Apply, args: tuple[Text, ...], fast: bool = False) -> Text:
    """One operation on operands that are already text."""
    op, dtype = expr.op, expr.dtype
    if op in _INFIX and not (op == "div" and fast and dtype == "f32"):
        return _infix(op, args, is_float(dtype))
    if op == "fmod" and not is_float(dtype):
        left, right = args
        return Text(f"{left.within(PRODUCT)} % {right.within(PRODUCT + 1)}", PRODUCT)
    if op in _PREFIX:
        return Text(_PREFIX[op] + args[0].within(UNARY + 1), UNARY)
    if op in ("where", "select"):
        condition, yes, no = args
        if yes == no:
            return yes
        code = f"{condition.within(_CONDITIONAL + 1)} ? {yes.within(_CONDITIONAL + 1)} : {no.within(3)}"
        return Text(code, _CONDITIONAL)
    if op == "cast":
        return _cast(expr, args[0])
    if op == "nearest":
        return Text(f"__float2int_rn({args[0].code})")
    if op in BITS_OF:
        memory = BITS_OF[op]
        return Text(f"{_BITS[memory]}({stored(args[0].code, memory)})")
    if op in FLOAT_OF:
        memory = FLOAT_OF[op]
        return loaded(f"{_FROM_BITS[memory]}({args[0].code})", memory, dtype)
    if op == "round_f16":
        return Text(f"__half2float(__float2half({args[0].code}))")
    return Text(f"{_function(op, expr, fast)}({', '.join(arg.code for arg in args)})")


def _infix(op: str, args: tuple[Text, ...], rounds: bool) -> Text:
    """Operands of equal strength: the left one stands free; the right one only where order is idle."""
    sign, strength = _INFIX[op]
    left, right = args
    free = not rounds and right.sign in _CHAINS.get(op, ())
    if strength == _SHIFT:  # what is shifted stands in parentheses, though C++ would not ask for them
        return Text(f"{left.within(UNARY)} {sign} {right.within(UNARY)}", strength, sign)
    if left.strength != strength and left.strength in (5, 4) and strength in (5, 4):
        left = Text(f"({left.code})")
    code = f"{left.within(strength)} {sign} {right.within(strength if free else strength + 1)}"
    return Text(code, strength, sign)


def _cast(expr: Apply, arg: Text) -> Text:
    if expr.dtype == "bool":
        return Text(f"{arg.within(10)} != 0", 9)
    if helper := helper_of(expr):
        return Text(f"{helper}({arg.code})")
    ctype = CTYPES[expr.dtype]
    if " " in ctype:
        return Text(f"static_cast<{ctype}>({arg.code})")
    return Text(f"{ctype}({arg.code})")


def _function(op: str, expr: Apply, fast: bool) -> str:
    operand = expr.args[0].dtype
    if op in _PLAIN or (op, expr.dtype) in _VARIANTS:
        return _HELPED[op]
    if op in _HELPED:
        return _HELPED[op] + _template_argument(expr)
    if helper_of(expr):
        return f"{helper_of(expr)}<{CTYPES[expr.dtype]}>"
    if op in ("isnan", "isinf", "signbit"):
        return op
    if op == "div":
        return "__fdividef"
    if op == "abs" and not is_float(operand):
        return "llabs" if operand == "i64" else "abs"
    if fast and operand == "f32" and op in _FAST:
        return _FAST[op]
    return _MATH[op] + ("" if operand == "f64" else "f")


def _template_argument(expr: Apply) -> str:
    """Needed where a literal or a size has another type than the value it meets: INFINITY is a float."""
    mixed = any(arg.dtype != expr.dtype or (isinstance(arg, Const) and _typeless(arg)) for arg in expr.args)
    return f"<{CTYPES[expr.dtype]}>" if mixed or expr.dtype not in ("f32", "f64", "i32") else ""


def _typeless(const: Const) -> bool:
    """True for a number whose text says nothing of its type: a size, or what no literal is written for."""
    return isinstance(const.value, str) or (const.dtype == "f64" and not math.isfinite(const.value))


def number(value: bool | int | float, dtype: DType) -> Text:
    """A literal that reads back as the same value of the type."""
    if isinstance(value, bool):
        return Text("true" if value else "false")
    if dtype == "i32" and value == -(2**31):  # 2147483648 alone is no int
        return Text(_LOWEST[dtype])
    if not is_float(dtype):
        suffix = "LL" if abs(value) >= 2**31 else ""
        return Text(f"{int(value)}{suffix}", ATOM if value >= 0 else UNARY)
    if math.isnan(value):
        return Text("NAN")
    if math.isinf(value):
        return Text("INFINITY" if value > 0 else "-INFINITY", ATOM if value > 0 else UNARY)
    code = _shortest(float(value), dtype == "f64")
    return Text(code + ("" if dtype == "f64" else "f"), ATOM if value >= 0 else UNARY)


def _shortest(value: float, double: bool) -> str:
    code = repr(value)
    if not double:
        try:
            single = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return "INFINITY" if value > 0 else "-INFINITY"
        codes = (f"{value:.{digits}g}" for digits in range(1, 10))
        code = next((c for c in codes if struct.unpack("f", struct.pack("f", float(c)))[0] == single), code)
    return code if any(mark in code for mark in ".en") else f"{code}.0"


def loaded(code: str, dtype: DType, computed: DType) -> Text:
    """An element as the type it computes in: a number, or the bits of one."""
    if is_float(dtype) and not is_float(computed):
        return Text(f"{_BITS[dtype]}({code})")
    if dtype == "f16":
        return Text(f"__half2float({code})")
    if dtype == "bf16":
        return Text(f"__bfloat162float({code})")
    return Text(code)


def stored(code: str, dtype: str) -> str:
    """A computed value as an element."""
    if dtype == "f16":
        return f"__float2half({code})"
    if dtype == "bf16":
        return f"__float2bfloat16({code})"
    return code


_LOWEST = {
    "i64": "LLONG_MIN", "i32": "INT_MIN", "i16": "SHRT_MIN", "i8": "SCHAR_MIN", "u8": "0", "bool": "false",
}  # fmt: skip


_HIGHEST = {
    "i64": "LLONG_MAX", "i32": "INT_MAX", "i16": "SHRT_MAX", "i8": "SCHAR_MAX", "u8": "UCHAR_MAX",
    "bool": "true",
}  # fmt: skip


def bounds(dtype: DType) -> tuple[str, str]:
    """The lowest and the highest value of a type, as C++ has them."""
    if is_float(dtype):
        return "-INFINITY", "INFINITY"
    return _LOWEST[dtype], _HIGHEST[dtype]
