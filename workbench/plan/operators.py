"""Arithmetic and comparison with Python's meaning, exact for integers, bounded in size.

Owns the operators on plan values. Never looks at a syntax tree's place: the caller adds the line.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from workbench.plan.limits import INT_BITS, ITEMS, STRING_CHARS
from workbench.plan.refusal import Refused
from workbench.plan.values import DTypeName, Tensor, describe, is_number, measure

_NUMERIC: Mapping[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
}
_BITWISE: Mapping[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.BitXor: ("^", operator.xor),
}
_ORDER: Mapping[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}


def binary(op: ast.operator, left: object, right: object) -> object:
    """``left op right``. Raises ``Refused`` for values it has no meaning for."""
    if isinstance(left, str | tuple | list) or isinstance(right, str | tuple | list):
        return _on_sequences(op, left, right)
    if isinstance(op, ast.BitOr) and isinstance(left, dict) and isinstance(right, dict):
        return left | right
    kind = type(op)
    if kind in _NUMERIC:
        sign, function = _NUMERIC[kind]
        fits = is_number(left) and is_number(right)
    else:
        sign, function = _BITWISE[kind]
        fits = isinstance(left, int) and isinstance(right, int)
    if not fits:
        raise Refused(f"{sign} is not defined for {describe(left)} and {describe(right)}")
    _check_growth(op, left, right)
    return _bounded(sign, function, left, right)


def _check_growth(op: ast.operator, left: Any, right: Any) -> None:
    """Refuse a power or shift whose result would be huge before it is computed."""
    if not (isinstance(left, int) and isinstance(right, int)) or right <= 0:
        return
    if isinstance(op, ast.Pow):
        bits = left.bit_length() * right if left not in (0, 1, -1) else 0
    elif isinstance(op, ast.LShift):
        bits = left.bit_length() + right
    else:
        return
    if bits > 2 * INT_BITS:
        raise Refused(f"an integer of more than {INT_BITS} bits: no size needs it")


def _bounded(sign: str, function: Callable[[Any, Any], Any], left: object, right: object) -> object:
    try:
        result = function(left, right)
    except ZeroDivisionError:
        raise Refused(f"{sign} divides by zero") from None
    except OverflowError:
        raise Refused(f"{sign} of {describe(left)} and {describe(right)} is too large") from None
    except ValueError as error:
        raise Refused(f"{sign} of {describe(left)} and {describe(right)}: {error}") from None
    if isinstance(result, complex):
        raise Refused(f"{sign} of {describe(left)} and {describe(right)} is no real number")
    return checked(result)


def checked(result: object) -> object:
    """The number itself. Raises ``Refused`` for an integer of too many bits."""
    if isinstance(result, int) and result.bit_length() > INT_BITS:
        raise Refused(f"an integer of more than {INT_BITS} bits: no size needs it")
    return result


def _on_sequences(op: ast.operator, left: object, right: object) -> object:
    """Joining with ``+`` and repeating with ``*``."""
    if isinstance(op, ast.Add):
        for kind in (str, tuple, list):
            if isinstance(left, kind) and isinstance(right, kind):
                joined: Any = left + right  # type: ignore[operator]
                measure(joined)
                return joined
    if isinstance(op, ast.Mult):
        sequence, count = (right, left) if isinstance(left, int) else (left, right)
        if isinstance(sequence, str | tuple | list) and isinstance(count, int):
            if len(sequence) * max(count, 0) > (STRING_CHARS if isinstance(sequence, str) else ITEMS):
                raise Refused(f"{describe(sequence)} repeated {count} times is too long")
            repeated: object = sequence * count
            measure(repeated)
            return repeated
    signs = {kind: sign for kind, (sign, _) in (*_NUMERIC.items(), *_BITWISE.items())}
    raise Refused(f"{signs[type(op)]} is not defined for {describe(left)} and {describe(right)}")


def unary(op: ast.unaryop, value: object) -> object:
    """``-value``, ``+value``, ``~value``, ``not value``."""
    if isinstance(op, ast.Not):
        return not truth(value)
    if isinstance(op, ast.Invert) and isinstance(value, int):
        return ~value
    if isinstance(op, ast.USub) and isinstance(value, int | float):
        return -value
    if isinstance(op, ast.UAdd) and isinstance(value, int | float):
        return +value
    sign = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}[type(op)]
    raise Refused(f"{sign} is not defined for {describe(value)}")


def compare(op: ast.cmpop, left: object, right: object) -> bool:
    """One comparison. Tensors have none: their data is unknown while a plan is interpreted."""
    if isinstance(op, ast.Is | ast.IsNot):
        if left is not None and right is not None:
            raise Refused("is compares with None only: use ==")
        return (left is right) is isinstance(op, ast.Is)
    if isinstance(op, ast.In | ast.NotIn):
        return _contains(left, right) is isinstance(op, ast.In)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        raise Refused("a tensor cannot be compared: its data is unknown here; compare .shape or .dtype")
    if isinstance(op, ast.Eq | ast.NotEq):
        return (left == right) is isinstance(op, ast.Eq)
    sign, function = _ORDER[type(op)]
    if is_number(left) and is_number(right):
        return bool(function(left, right))
    raise Refused(f"{sign} compares numbers, not {describe(left)} and {describe(right)}")


def _contains(item: object, container: object) -> bool:
    if isinstance(container, str):
        if isinstance(item, str):
            return item in container
    elif isinstance(container, tuple | list):
        return any(item is element or item == element for element in container)
    elif isinstance(container, range):
        return isinstance(item, int) and item in container
    elif isinstance(container, dict):
        return isinstance(item, str) and item in container
    raise Refused(f"in does not look for {describe(item)} in {describe(container)}")


def truth(value: object) -> bool:
    """What ``if`` makes of a value."""
    if isinstance(value, Tensor):
        raise Refused("a tensor is neither true nor false: its data is unknown while the plan is interpreted")
    if isinstance(value, DTypeName):
        raise Refused("a dtype is neither true nor false: compare it with ==")
    return bool(value)
