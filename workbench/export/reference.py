"""The reference's own text as a class ``ModelNew`` whose ``forward`` is still to be written.

Owns the renaming. The constructor stays as it is, so that a seed gives the same weights; what was
``forward`` becomes ``forward_in_torch``. Never runs the text.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass

from workbench import syntax
from workbench.errors import UsageError
from workbench.model import Problem
from workbench.problem.payload import carries
from workbench.problem.statements import Statement, needed, read_statements

CLASS = "ModelNew"
IN_TORCH = "forward_in_torch"
_KINDS = ("kernelbench", "module_class", "function")


@dataclass(frozen=True)
class ReferenceText:
    """What an exported file takes over from the person's own."""

    imports: str
    others: str
    """Definitions and constants that the reference needs; may be empty."""
    body: str
    """The class up to its last method, without the new ``forward``."""
    signature: str
    """Parameters of ``forward`` as the reference spells them, ``self`` included."""
    call: str
    """The same as arguments of a call."""
    parameters: tuple[str, ...]
    """The same as names, ``self`` not included."""


def reference_text(problem: Problem) -> ReferenceText:
    """Read the reference's source. Raises ``UsageError`` for one that is not all in its text."""
    _refuse(problem)
    statements = read_statements(problem.source)
    kept = [s for s in needed(statements, (problem.entry,)) if s.is_definition or s.binds]
    lines = problem.source.splitlines()
    entry = next(s for s in reversed(kept) if problem.entry in s.binds)
    imports = [s for s in kept if isinstance(s.node, ast.Import | ast.ImportFrom)]
    others = [s for s in kept if s not in imports and (s is not entry or problem.kind == "function")]
    is_class = isinstance(entry.node, ast.ClassDef)
    forward = _forward(entry.node, problem.entry)
    renamed = {problem.entry: CLASS} if is_class else {}
    arguments = forward.args if is_class else _with_self(forward.args)
    return ReferenceText(
        imports="\n".join(_text(lines, s) for s in imports),
        others="\n\n".join(_renamed(_text(lines, s), renamed) for s in others),
        body=_class_text(lines, entry, forward, renamed) if is_class else _wrapping(problem.entry, arguments),
        signature=ast.unparse(arguments),
        call=_call(arguments),
        parameters=tuple(a.arg for a in _all(arguments))[1:],
    )


def _refuse(problem: Problem) -> None:
    name = problem.name
    if problem.kind not in _KINDS:
        raise UsageError(
            f"{name} cannot become a KernelBench file: it was built in the notebook. "
            "Give a file with its class, get_inputs() and get_init_inputs()."
        )
    if carried := carries(problem.payload):
        raise UsageError(
            f"{name} cannot become a KernelBench file: its code needs {carried} from outside its text. "
            "Write it into the reference's own cell or file."
        )
    held = _attributes(problem)
    for spec in problem.tensors:
        if spec.role != "input" and spec.path.partition(".")[0] not in held:
            raise UsageError(
                f"{name} cannot become a KernelBench file: it reads {spec.path}, which is no parameter "
                "of its module. Register it in the class, or pass it as an input."
            )


def _attributes(problem: Problem) -> set[str]:
    """Names that methods of the text's classes set or register on ``self``."""
    found = set()
    for node in ast.walk(syntax.module(problem.source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            first = node.args[0] if node.args else None
            if node.func.attr in _REGISTER and isinstance(first, ast.Constant):
                found.add(str(first.value))
    return found if problem.kind != "function" else set()


_REGISTER = ("register_buffer", "register_parameter", "register_module", "add_module")


def _forward(node: ast.stmt, name: str) -> ast.FunctionDef:
    if isinstance(node, ast.FunctionDef):
        return node
    if isinstance(node, ast.ClassDef):
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and part.name == "forward":
                return part
    raise UsageError(f"{name} cannot become a KernelBench file: it is no class with a forward of its own")


# ------------------------------------------------------------------------------------ arguments


def _with_self(arguments: ast.arguments) -> ast.arguments:
    text = ast.unparse(arguments)
    function = syntax.module(f"def forward(self{', ' if text else ''}{text}): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.args


def _all(arguments: ast.arguments) -> list[ast.arg]:
    if arguments.vararg or arguments.kwarg:
        raise UsageError("a forward with *args or **kwargs cannot become a KernelBench file: name its inputs")
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _call(arguments: ast.arguments) -> str:
    plain = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][1:]
    return ", ".join([*plain, *(f"{a.arg}={a.arg}" for a in arguments.kwonlyargs)])


# ------------------------------------------------------------------------------------ text


def _text(lines: list[str], statement: Statement) -> str:
    return "\n".join(lines[statement.line - 1 : statement.node.end_lineno])


def _class_text(
    lines: list[str], statement: Statement, forward: ast.FunctionDef, renamed: Mapping[str, str]
) -> str:
    own = list(lines)
    line = own[forward.lineno - 1]
    own[forward.lineno - 1] = line.replace("def forward", f"def {IN_TORCH}", 1)
    return _renamed(_text(own, statement), renamed).rstrip()


def _wrapping(name: str, arguments: ast.arguments) -> str:
    return (
        f"class {CLASS}(nn.Module):\n"
        f"    def {IN_TORCH}({ast.unparse(arguments)}):\n"
        f"        return {name}({_call(arguments)})"
    )


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """Replace whole names in code; strings and comments keep theirs."""
    if not names:
        return text
    lines = text.splitlines(keepends=True)
    found = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.NAME]
    for token in reversed(found):
        if token.string in names:
            row, start = token.start
            line = lines[row - 1]
            lines[row - 1] = line[:start] + names[token.string] + line[token.end[1] :]
    return "".join(lines)
