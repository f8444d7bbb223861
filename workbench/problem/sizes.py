"""Size expressions of torch as text that ``model.size_of`` and the plan language evaluate.

Owns the printing; knows sympy, never a tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import sympy


class NotASize(ValueError):
    """An expression outside ``+ - * // %``, ``min`` and ``max`` over integers."""


_SUM, _PRODUCT, _ATOM = 0, 1, 2


def size_text(expression: sympy.Expr, names: Mapping[sympy.Symbol, str]) -> str:
    """Print an integer expression, with as few parentheses as Python needs. Raises ``NotASize``."""
    return _print(expression, names)[0]


def _print(node: sympy.Expr, names: Mapping[sympy.Symbol, str]) -> tuple[str, int]:
    if isinstance(node, sympy.Integer):
        return str(int(node)), _ATOM if int(node) >= 0 else _SUM
    if isinstance(node, sympy.Symbol):
        return names[node], _ATOM
    if isinstance(node, sympy.Add):
        return _sum(node, names), _SUM
    if isinstance(node, sympy.Mul):
        return _product(node, names), _PRODUCT
    if isinstance(node, sympy.Pow) and isinstance(node.exp, sympy.Integer) and int(node.exp) > 0:
        return "*".join([_wrapped(node.base, names, _ATOM)] * int(node.exp)), _PRODUCT
    kind = type(node).__name__
    if kind in ("FloorDiv", "CleanDiv"):
        return _binary(node, "//", names), _PRODUCT
    if kind in ("Mod", "PythonMod"):
        return _binary(node, "%", names), _PRODUCT
    if kind in ("Min", "Max"):  # sympy's own order differs from run to run
        return f"{_CALLED[kind]}({', '.join(sorted(size_text(arg, names) for arg in node.args))})", _ATOM
    if kind in ("TruncToInt", "FloorToInt") and (scaled := _scaled(node.args[0])) is not None:
        return _product_of(scaled[0], [_wrapped(scaled[1], names, _ATOM)]), _PRODUCT
    raise NotASize(f"{node} is not a size a plan can compute")


_MOST_OF_RATIO = 2**16
"""Numerator and denominator up to which a size times a ratio is exact in float64, as Python computes it."""


def _scaled(node: sympy.Basic) -> tuple[Fraction, sympy.Expr] | None:
    """The parts of ``0.375 * size`` in float64: a short positive ratio and the size."""
    if not isinstance(node, sympy.Mul) or len(node.args) != 2:
        return None
    factor, size = node.args
    if not isinstance(factor, sympy.Float) or type(size).__name__ != "ToFloat":
        return None
    ratio = Fraction(float(factor))
    short = 0 < ratio.numerator <= _MOST_OF_RATIO and ratio.denominator <= _MOST_OF_RATIO
    return (ratio, size.args[0]) if short else None


_INFIX = {
    "FloorDiv": "//",
    "CleanDiv": "//",
    "Mod": "%",
    "PythonMod": "%",
    "IntTrueDiv": "/",
    "FloatTrueDiv": "/",
    "FloatPow": "**",
    "PowByNatural": "**",
    "Pow": "**",
}
_CALLED = {"Min": "min", "Max": "max", "Abs": "abs", "TruncToInt": "int", "CeilToInt": "ceil"}


def in_words(node: sympy.Basic, names: Mapping[sympy.Symbol, str]) -> str:
    """Any expression of sizes as the person would write it in Python, for a note; never evaluated."""
    kind = type(node).__name__
    if isinstance(node, sympy.Symbol):
        return names.get(node, str(node))
    if not node.args:
        return f"{float(node):g}" if isinstance(node, sympy.Float) else str(node)
    parts = [in_words(arg, names) for arg in node.args]
    if kind == "ToFloat":
        return parts[0]
    closed = [
        f"({part})" if " " in part and arg.args else part for part, arg in zip(parts, node.args, strict=True)
    ]
    if kind in _INFIX:
        return f" {_INFIX[kind]} ".join(closed)
    # sympy's own order differs from run to run.
    if isinstance(node, sympy.Mul):
        return " * ".join(sorted(closed))
    if isinstance(node, sympy.Add):
        return " + ".join(sorted(parts))
    if kind in ("Min", "Max"):
        parts.sort()
    return f"{_CALLED.get(kind, kind)}({', '.join(parts)})"


def _wrapped(node: sympy.Expr, names: Mapping[sympy.Symbol, str], least: int) -> str:
    text, strength = _print(node, names)
    return text if strength >= least else f"({text})"


def _sum(node: sympy.Add, names: Mapping[sympy.Symbol, str]) -> str:
    constants = [term for term in node.args if isinstance(term, sympy.Integer)]
    terms = [term for term in node.args if term not in constants]
    terms.sort(key=lambda term: _print(term, names)[0])
    text = _wrapped(terms[0], names, _PRODUCT)
    for term in [*terms[1:], *constants]:
        if term.could_extract_minus_sign():
            text += f" - {_wrapped(-term, names, _PRODUCT)}"
        else:
            text += f" + {_wrapped(term, names, _PRODUCT)}"
    return text


def _product(node: sympy.Mul, names: Mapping[sympy.Symbol, str]) -> str:
    coefficient, rest = node.as_coeff_Mul()
    parts = sorted(_wrapped(factor, names, _ATOM) for factor in sympy.Mul.make_args(rest))
    text = _product_of(Fraction(abs(int(coefficient.p)), int(coefficient.q)), parts)
    return f"-{text}" if coefficient < 0 else text


def _product_of(ratio: Fraction, parts: list[str]) -> str:
    """The whole part of a ratio of sizes, all of them positive."""
    numerator = [str(ratio.numerator)] if ratio.numerator != 1 else []
    text = "*".join([*numerator, *parts])
    return text if ratio.denominator == 1 else f"{text}//{ratio.denominator}"


def _binary(node: sympy.Expr, op: str, names: Mapping[sympy.Symbol, str]) -> str:
    left, right = node.args
    return f"{_wrapped(left, names, _ATOM)}{op}{_wrapped(right, names, _ATOM)}"
