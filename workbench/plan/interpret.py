"""Interpret a plan on metadata: statements, the plan's arguments and what it returns.

Owns ``interpret`` and ``interpret_path``. Never touches data, a compiler or a device; every run is a pure
function of the program, the metadata and the target.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from workbench.errors import PlanError, nearest
from workbench.model import Target, TensorMeta
from workbench.plan.build import Build, LibraryMeta, Turn
from workbench.plan.expressions import Evaluator
from workbench.plan.libraries import refuse_library
from workbench.plan.operators import binary
from workbench.plan.parse import Program
from workbench.plan.refusal import Refused
from workbench.plan.steps import Plan
from workbench.plan.values import Tensor, describe, measure

__all__ = ["LibraryMeta", "Path", "interpret", "interpret_path", "refuse_library"]

Path = tuple[Turn, ...]
"""The ways a plan's conditions went for some sizes, sorted: sizes of one path are treated alike."""


def interpret(
    program: Program,
    arguments: Mapping[str, TensorMeta],
    target: Target,
    library_meta: LibraryMeta = refuse_library,
) -> Plan:
    """Evaluate a plan for tensors of the given metadata.

    Parameters are matched to ``arguments`` by name, in any order. Raises ``PlanError`` for a plan that
    is wrong, ``NotCovered`` where one of its ``require``s turns these inputs away.
    """
    return interpret_path(program, arguments, target, library_meta)[0]


def interpret_path(
    program: Program,
    arguments: Mapping[str, TensorMeta],
    target: Target,
    library_meta: LibraryMeta = refuse_library,
) -> tuple[Plan, Path]:
    """The same, and which way every condition of the plan went. Raises as ``interpret`` does."""
    _check_parameters(program, arguments)
    build = Build(program.kernels, target, library_meta)
    scope: dict[str, object] = {n: build.argument(n, arguments[n]) for n in program.parameters}
    evaluator = Evaluator(program, build, scope)
    end = _Statements(evaluator).run(program.function.body)
    if not isinstance(end, _Returned):
        raise evaluator.error(program.function, "the plan ends without a return on this path")
    outputs = _outputs(evaluator, end)
    plan = Plan(
        arguments=tuple((n, arguments[n]) for n in program.parameters),
        steps=tuple(build.steps),
        outputs=tuple(t.buffer for t in outputs),
    )
    return plan, tuple(sorted(build.turns))


@dataclass(frozen=True, slots=True)
class _Returned:
    value: object
    node: ast.Return


class _Loop(Enum):
    BREAK = 0
    CONTINUE = 1


_End = _Returned | _Loop | None


class _Statements:
    """Runs statements in order until one of them ends the plan or the round of a loop."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator

    def run(self, body: list[ast.stmt]) -> _End:
        """Run a block; what ended it, or None when it ran to its last line."""
        for statement in body:
            end = self._statement(statement)
            if end is not None:
                return end
        return None

    def _statement(self, node: ast.stmt) -> _End:
        evaluator = self.evaluator
        match node:
            case ast.Assign(targets=targets, value=value):
                result = evaluator.value(value)
                for target in targets:
                    self._assign(target, result)
            case ast.AugAssign(target=ast.Name() as name):
                self._augment(node, name)
            case ast.Expr(value=value):
                evaluator.value(value)
            case ast.If(test=test, body=body, orelse=orelse):
                return self.run(body if evaluator.true(test) else orelse)
            case ast.For():
                return self._for(node)
            case ast.Return():
                return _Returned(evaluator.value(node.value) if node.value else None, node)
            case ast.Break():
                return _Loop.BREAK
            case ast.Continue():
                return _Loop.CONTINUE
        return None

    def _for(self, node: ast.For) -> _End:
        items = self.evaluator.value(node.iter)
        if not isinstance(items, range | tuple | list):
            message = f"for goes over a range, tuple or list, not {describe(items)}"
            raise self.evaluator.error(node.iter, message)
        for item in items:
            self._charge(node)
            self._assign(node.target, item)
            end = self.run(node.body)
            if end is _Loop.BREAK:
                break
            if isinstance(end, _Returned):
                return end
        return None

    def _charge(self, node: ast.For) -> None:
        try:
            self.evaluator.build.charge()
        except Refused as refused:
            raise self.evaluator.error(node, refused.message) from None

    def _augment(self, node: ast.AugAssign, name: ast.Name) -> None:
        current = self.evaluator.value(ast.copy_location(ast.Name(name.id, ast.Load()), name))
        try:
            result = binary(node.op, current, self.evaluator.value(node.value))
            if isinstance(result, str | tuple | list | dict):
                self.evaluator.build.charge(measure(result))
        except Refused as refused:
            raise self.evaluator.error(node, refused.message) from None
        self.evaluator.scope[name.id] = result

    def _assign(self, target: ast.expr, value: object) -> None:
        if isinstance(target, ast.Name):
            self.evaluator.scope[target.id] = value
            return
        assert isinstance(target, ast.Tuple | ast.List)
        if not isinstance(value, tuple | list | range):
            message = f"{describe(value)} cannot be taken apart into {len(target.elts)} names"
            raise self.evaluator.error(target, message)
        if len(value) != len(target.elts):
            message = f"{len(value)} values for {len(target.elts)} names"
            raise self.evaluator.error(target, message)
        for element, item in zip(target.elts, value, strict=True):
            self._assign(element, item)


def _check_parameters(program: Program, arguments: Mapping[str, TensorMeta]) -> None:
    """The plan's parameters are exactly the problem's tensors."""
    unknown = [a for a in program.function.args.args if a.arg not in arguments]
    missing = [name for name in arguments if name not in program.parameters]
    wanted = f"def plan({', '.join(arguments)})"
    if unknown:
        name = unknown[0].arg
        guess = nearest(name, missing or arguments)
        message = f"the problem has no tensor {name!r}.{guess} Write {wanted}."
        raise PlanError((program.diagnose(unknown[0], message),))
    if missing:
        message = f"the plan leaves out {', '.join(missing)}: write {wanted}"
        raise PlanError((program.diagnose(program.function, message),))


def _outputs(evaluator: Evaluator, end: _Returned) -> tuple[Tensor, ...]:
    """The returned tensors: new memory, and written by some step."""
    items = end.value if isinstance(end.value, tuple | list) else (end.value,)
    if not items:
        raise evaluator.error(end.node, "the plan must return at least one tensor")
    for i, item in enumerate(items):
        node: ast.AST = end.node
        if isinstance(end.node.value, ast.Tuple | ast.List) and i < len(end.node.value.elts):
            node = end.node.value.elts[i]
        if not isinstance(item, Tensor):
            message = f"a plan returns a tensor or a tuple of tensors, not {describe(item)}"
            raise evaluator.error(node, message)
        if item.borrowed:
            message = (
                f"the output is the memory of the input {item.origin!r}: return a buffer of the plan's own"
            )
            raise evaluator.error(node, message)
        if item.origin not in evaluator.build.written and item.meta.numel:
            message = "nothing writes this output: pass it to a launch as a pointer without const"
            raise evaluator.error(node, message)
    return tuple(i for i in items if isinstance(i, Tensor))
