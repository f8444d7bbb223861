"""Expressions of a plan, evaluated on metadata.

Owns the walk over expression nodes and gives every refusal its place in the person's file. Never
executes Python: a node either has a rule here or was refused by grammar.py.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

from workbench.errors import NotCovered, PlanError, nearest
from workbench.model import Target
from workbench.plan import buffers
from workbench.plan.build import Build
from workbench.plan.calls import CALLS, Uncovered, make_range, smallest_or_largest
from workbench.plan.libraries import library
from workbench.plan.operators import binary, compare, truth, unary
from workbench.plan.parse import Program
from workbench.plan.refusal import Refused, Where
from workbench.plan.values import DTypeName, Tensor, describe, measure, tensor_fact, write_out
from workbench.plan.vocabulary import CALLS as CALL_NAMES
from workbench.plan.vocabulary import CARD, CARD_FACTS, DTYPES, TENSOR_FACTS

_FEW = 8
"""Elements a unit of work stands for: handling an element is cheaper than visiting a node."""


class Evaluator:
    """Evaluates expressions in one scope and adds steps to one build."""

    def __init__(self, program: Program, build: Build, scope: dict[str, object]) -> None:
        self.program = program
        self.build = build
        self.scope = scope
        self._constants: dict[str, object] = {name: DTypeName(name) for name in DTYPES}
        self._constants.update(inf=math.inf, nan=math.nan)
        self._constants.update(dict.fromkeys(CARD, build.target))
        self._rules: Mapping[type[ast.expr], Callable[[Any], object]] = {
            ast.Constant: lambda node: node.value,
            ast.Name: self._name,
            ast.BinOp: self._binary,
            ast.UnaryOp: lambda node: unary(node.op, self.value(node.operand)),
            ast.BoolOp: self._bool,
            ast.Compare: self._compare,
            ast.IfExp: lambda node: self.value(node.body if self.true(node.test) else node.orelse),
            ast.Call: self._call,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Tuple: lambda node: self._weigh(tuple(self.value(e) for e in node.elts)),
            ast.List: lambda node: self._weigh([self.value(e) for e in node.elts]),
            ast.Dict: self._dict,
            ast.JoinedStr: self._string,
        }

    def value(self, node: ast.expr) -> object:
        """The value of an expression. Raises ``PlanError`` or ``NotCovered`` at the node."""
        try:
            self.build.charge()
            return self._rules[type(node)](node)
        except Refused as refused:
            raise self.error(_place(node, refused.at), refused.message) from None
        except Uncovered as uncovered:
            raise NotCovered((self.program.diagnose(node, str(uncovered)),)) from None

    def true(self, node: ast.expr) -> bool:
        """Whether an expression counts as true."""
        value = self.value(node)
        try:
            return self._turned(node, truth(value))
        except Refused as refused:
            raise self.error(node, refused.message) from None

    def _turned(self, node: ast.expr, way: bool) -> bool:
        """Remember which way a condition went."""
        self.build.turns[node.lineno, node.col_offset, way] = None
        return way

    def error(self, node: ast.AST, message: str) -> PlanError:
        """An error at a node."""
        return PlanError((self.program.diagnose(node, message),))

    def _weigh(self, value: object) -> object:
        """The value itself; a large one costs work, so that time stays bounded."""
        if isinstance(value, str | tuple | list | dict):
            self.build.charge(measure(value) // _FEW)
        return value

    def _name(self, node: ast.Name) -> object:
        if node.id in self.scope:
            return self.scope[node.id]
        if node.id in self._constants:
            return self._constants[node.id]
        if node.id in CALL_NAMES:
            raise Refused(f"{node.id} is a call: write {node.id}(...)")
        raise Refused(f"{node.id!r} has no value yet on this path")

    def _binary(self, node: ast.BinOp) -> object:
        return self._weigh(binary(node.op, self.value(node.left), self.value(node.right)))

    def _bool(self, node: ast.BoolOp) -> object:
        stop_at = isinstance(node.op, ast.Or)
        for operand in node.values[:-1]:
            value = self.value(operand)
            if truth(value) is stop_at:
                return value
        return self.value(node.values[-1])

    def _compare(self, node: ast.Compare) -> bool:
        left = self._weigh(self.value(node.left))
        for op, operand in zip(node.ops, node.comparators, strict=True):
            right = self._weigh(self.value(operand))
            if not compare(op, left, right):
                return self._turned(node, False)
            left = right
        return self._turned(node, True)

    def _attribute(self, node: ast.Attribute) -> object:
        value = self.value(node.value)
        if isinstance(value, Tensor) and node.attr in TENSOR_FACTS:
            return tensor_fact(value, node.attr)
        if isinstance(value, Target) and node.attr in CARD_FACTS:
            return getattr(value, node.attr)
        if isinstance(value, Tensor | Target):
            facts = TENSOR_FACTS if isinstance(value, Tensor) else CARD_FACTS
            guess = nearest(node.attr, facts) or f" It has: {', '.join(facts)}."
            raise Refused(f"{describe(value)} has no fact {node.attr!r}.{guess}")
        raise Refused(f"{describe(value)} has no fact {node.attr!r}: only tensors and the card have facts")

    def _subscript(self, node: ast.Subscript) -> object:
        value = self.value(node.value)
        if isinstance(value, Tensor):
            raise Refused("elements of a tensor are unknown here: index x.shape, or take a view(...)")
        if isinstance(node.slice, ast.Slice):
            return self._slice(value, node.slice)
        index = self.value(node.slice)
        if isinstance(value, dict) and isinstance(index, str):
            if index not in value:
                raise Refused(f"the dict has no {index!r}.{nearest(index, value)}")
            return value[index]
        if not isinstance(value, str | tuple | list | range):
            raise Refused(f"{describe(value)} cannot be indexed")
        if not isinstance(index, int):
            raise Refused(f"an index must be a whole number, not {describe(index)}")
        if not -len(value) <= index < len(value):
            raise Refused(f"index {index} is outside {describe(value)}")
        return value[index]

    def _slice(self, value: object, node: ast.Slice) -> object:
        if not isinstance(value, str | tuple | list | range):
            raise Refused(f"{describe(value)} cannot be sliced")
        ends: list[int | None] = []
        for part in (node.lower, node.upper, node.step):
            end = None if part is None else self.value(part)
            if end is not None and not isinstance(end, int):
                raise Refused(f"the ends of a slice must be whole numbers, not {describe(end)}")
            ends.append(end)
        if ends[2] == 0:
            raise Refused("the step of a slice cannot be 0")
        return self._weigh(value[slice(*ends)])

    def _dict(self, node: ast.Dict) -> object:
        result = {}
        for key, item in zip(node.keys, node.values, strict=True):
            name = self.value(key) if key is not None else None
            if not isinstance(name, str):
                raise Refused(f"the keys of a dict must be strings, not {describe(name)}")
            result[name] = self.value(item)
        return self._weigh(result)

    def _string(self, node: ast.JoinedStr) -> object:
        text = ""
        for part in node.values:
            value = self.value(part.value if isinstance(part, ast.FormattedValue) else part)
            text += write_out(self._weigh(value))
        return self._weigh(text)

    def _call(self, node: ast.Call) -> object:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        args = [self._weigh(self.value(a)) for a in node.args]
        kwargs = {k.arg or "": self._weigh(self.value(k.value)) for k in node.keywords}
        self.build.line = node.lineno
        if name in CALLS:
            return CALLS[name].run(self.build, CALLS[name].bind(name, args, kwargs))
        if name == "library":
            if not args:
                raise Refused('library() needs the name of an operation, such as "aten.mm"')
            return library(self.build, args[0], tuple(args[1:]), kwargs)
        if name == "tensor_map":
            return buffers.tensor_map(self.build, kwargs)
        if kwargs:
            raise Refused(f"{name}() has no named arguments")
        return make_range(args) if name == "range" else smallest_or_largest(name, args)


def _place(node: ast.expr, at: Where) -> ast.AST:
    """The node of the argument at fault, as deep as it was written out; the call itself otherwise."""
    if not isinstance(node, ast.Call) or not at or not isinstance(node.func, ast.Name):
        return node
    call = CALLS.get(node.func.id)
    names = list(call.parameters) if call else ["op"]
    given: dict[str | int, ast.expr] = dict(zip(names, node.args, strict=False))
    given.update({k.arg: k.value for k in node.keywords if k.arg})
    place: ast.AST = node
    for step in at:
        if isinstance(place, ast.Call):
            place = given.get(step, place)
        elif isinstance(place, ast.Tuple | ast.List) and isinstance(step, int) and step < len(place.elts):
            place = place.elts[step]
        elif isinstance(place, ast.Dict):
            keys = [k.value if isinstance(k, ast.Constant) else None for k in place.keys]
            place = (place.keys[keys.index(str(step))] if step in keys else None) or place
    return place
