"""What every value rests on: frozen, compared by content, named by a digest; sizes as expressions.

Owns ``Value`` and the words that all others use. Never names a thing of the search.
"""

from __future__ import annotations

import ast
import hashlib
import operator
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any, Literal, NewType, Self

from pydantic import BaseModel, ConfigDict

from workbench import syntax

BranchId = NewType("BranchId", str)
Digest = NewType("Digest", str)

DType = Literal["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"]
DTYPE_BYTES: Mapping[str, int] = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1,
}  # fmt: skip

Dim = int | str
"""A size: a number, or an integer expression over the problem's size symbols such as ``"s0*s1"``."""


class Value(BaseModel):
    """Compared and hashed by content. Hold tuples in it, never lists or dicts."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, ser_json_inf_nan="constants"
    )

    @cached_property
    def digest(self) -> Digest:
        """Name of the whole content: a new field changes it without being listed."""
        return Digest(hashlib.sha256(self.model_dump_json().encode()).hexdigest())

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's, but the copy finds anew what is found out of its content, such as its digest."""
        copy = super().model_copy(update=update, deep=deep)
        for found in copy.__dict__.keys() - type(self).model_fields.keys():
            del copy.__dict__[found]
        return copy


_OPS: Mapping[type[ast.AST], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def size_of(dim: Dim, sizes: Mapping[str, int]) -> int:
    """Evaluate a dimension with the sizes of its symbols. Raises ``KeyError`` for an unknown symbol."""
    return dim if isinstance(dim, int) else int(_function(dim)(sizes))


_Function = Callable[[Mapping[str, int]], int]


@lru_cache(maxsize=4096)
def _function(text: str) -> _Function:
    """What an expression comes to, read once: a search asks for the same few thousands of times."""
    return _read(syntax.expression(text))


def _read(node: ast.AST) -> _Function:
    match node:
        case ast.Constant(value=int(number)):
            return lambda sizes: number
        case ast.Name(id=name):
            return lambda sizes: sizes[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPS:
            return _of_two(_OPS[type(op)], _read(left), _read(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _of_one(operator.neg, _read(operand))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=args, keywords=[]):
            return _of_all(min if name == "min" else max, [_read(arg) for arg in args])
        case _:
            raise ValueError(f"not a size expression: {ast.unparse(node)}")


def _of_one(made: Callable[[int], int], of: _Function) -> _Function:
    return lambda sizes: made(of(sizes))


def _of_two(made: Callable[[int, int], int], left: _Function, right: _Function) -> _Function:
    return lambda sizes: int(made(left(sizes), right(sizes)))


def _of_all(least: Callable[[list[int]], int], parts: list[_Function]) -> _Function:
    return lambda sizes: least([part(sizes) for part in parts])
