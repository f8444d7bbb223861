"""What a cell could mean: which function, module class or instance is the reference.

Owns the choice and its error messages. Works on the text alone; never runs the person's code.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from workbench.errors import ProblemError, nearest
from workbench.problem.statements import Statement

Kind = Literal["function", "module_class", "module_instance", "kernelbench", "pickled"]

RESERVED = ("inputs", "get_inputs", "init_inputs", "get_init_inputs", "shapes")
"""Names that describe the problem; none of them is the reference."""

_OF_THE_NOTEBOOK = "%cuda_optimize NAME --inputs x,y (one percent sign, a cell of its own)"
_PLACING = ("eval", "cuda", "cpu", "to", "half", "float", "double", "bfloat16", "requires_grad_")
_NOT_LAYERS = ("nn.functional", "nn.init", "nn.Parameter", "nn.Buffer", "nn.utils")


@dataclass(frozen=True)
class Candidate:
    """A name that could be the reference."""

    name: str
    kind: Kind
    line: int


def choose(
    statements: tuple[Statement, ...], entry: str | None, namespace: Mapping[str, Any], text: str = "cell"
) -> Candidate:
    """Return the reference of a cell or file, as ``text`` says.

    Raises ``ProblemError`` when there is none, or more than one.
    """
    found = _candidates(statements, namespace)
    if entry is not None:
        return _named(entry, found, statements, text)
    bound = {name for s in statements for name in s.binds}
    kernelbench = found.get("Model")
    if kernelbench and kernelbench.kind == "module_class" and "get_inputs" in bound:
        return Candidate("Model", "kernelbench", kernelbench.line)
    roots = _roots(found, statements)
    if len(roots) == 1:
        return roots[0]
    if not roots:
        example = "def softmax(x): return torch.softmax(x, dim=1)"
        if text == "cell":
            example += f"\nor name one that the notebook has: {_OF_THE_NOTEBOOK}"
            raise ProblemError(f"there is no function or nn.Module in the cell: define one, {example}")
        raise ProblemError(
            f"there is no function or nn.Module in the {text}. Define the operation to replace, for example\n"
            f"{example}"
        )
    names = " and ".join(f"{c.name} (line {c.line})" for c in roots)
    raise ProblemError(f"the {text} defines {names}: choose one with --name {roots[-1].name}")


def _named(
    entry: str, found: Mapping[str, Candidate], statements: tuple[Statement, ...], text: str
) -> Candidate:
    if entry in found:
        return found[entry]
    for statement in reversed(statements):
        if entry in statement.binds and entry not in RESERVED:
            return Candidate(entry, "function", statement.line)
    known = [name for s in statements for name in sorted(s.binds)]
    raise ProblemError(f"nothing named {entry!r} is defined in the {text}.{nearest(entry, known)}")


def _candidates(statements: tuple[Statement, ...], namespace: Mapping[str, Any]) -> dict[str, Candidate]:
    found: dict[str, Candidate] = {}
    for statement in statements:
        node = statement.node
        match node:
            case ast.FunctionDef(name=name):
                kind: Kind | None = "function"
            case ast.ClassDef(name=name):
                kind = "module_class" if _is_module_class(node, found) else None
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                kind = _kind_of_value(value, found, namespace)
            case _:
                continue
        if kind is not None and name not in RESERVED:
            found[name] = Candidate(name, kind, statement.line)
    return found


def _is_module_class(node: ast.ClassDef, found: Mapping[str, Candidate]) -> bool:
    bases = [ast.unparse(base) for base in node.bases]
    methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    return "forward" in methods or any(
        base.endswith("Module") or found.get(base, Candidate("", "function", 0)).kind == "module_class"
        for base in bases
    )


def _kind_of_value(
    value: ast.expr, found: Mapping[str, Candidate], namespace: Mapping[str, Any]
) -> Kind | None:
    if isinstance(value, ast.Lambda):
        return "function"
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in _PLACING
        and isinstance(value.func.value, ast.Call)
    ):
        value = value.func.value
    if isinstance(value, ast.Name):
        return _kind_of_object(namespace.get(value.id))
    if not isinstance(value, ast.Call):
        return None
    called = ast.unparse(value.func)
    if called in ("torch.compile", "functools.partial", "partial", "torch.vmap", "torch.func.vmap"):
        return "function"
    in_cell = found.get(called)
    if in_cell is not None and in_cell.kind == "module_class":
        return "module_instance"
    is_class = isinstance(namespace.get(called), type) and hasattr(namespace[called], "forward")
    return "module_instance" if is_class or _is_layer(called) else None


def _kind_of_object(thing: Any) -> Kind | None:
    """Of another name for something of the notebook."""
    if inspect.isfunction(thing):
        return "function"
    is_module = not isinstance(thing, type) and callable(thing) and hasattr(type(thing), "forward")
    return "module_instance" if is_module else None


def _is_layer(called: str) -> bool:
    text = called.removeprefix("torch.")
    last = text.rpartition(".")[2]
    return text.startswith("nn.") and not text.startswith(_NOT_LAYERS) and last[:1].isupper()


def _roots(found: Mapping[str, Candidate], statements: tuple[Statement, ...]) -> list[Candidate]:
    """Candidates that no other candidate uses: helpers are not what the person wants replaced."""
    used: set[str] = set()
    for statement in statements:
        if statement.binds & (found.keys() | set(RESERVED)):
            used |= statement.uses - statement.binds
    roots = [c for c in found.values() if c.name not in used]
    public = [c for c in roots if not c.name.startswith("_")]
    return public or roots or list(found.values())
