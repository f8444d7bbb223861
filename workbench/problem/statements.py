"""A cell as top-level statements: what each binds, what each uses, and which ones a name needs.

Owns the scoping analysis (``ast`` and ``symtable``). Never runs the person's code.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterable
from dataclasses import dataclass

from workbench import syntax
from workbench.errors import ProblemError

CELL = "<cell>"
"""File name the person's code is compiled under; its line numbers are the person's own."""

ALWAYS = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "math": "math", "np": "numpy"}
"""Modules every cell may use without importing them, by the usual name."""

_SEEDS = (
    "torch.manual_seed",
    "torch.set_default_dtype",
    "random.seed",
    "np.random.seed",
    "numpy.random.seed",
)


@dataclass(frozen=True)
class Statement:
    """One top-level statement. ``touches`` are objects it changes without binding their names."""

    node: ast.stmt
    binds: frozenset[str]
    uses: frozenset[str]
    touches: frozenset[str]

    @property
    def line(self) -> int:
        """First line, decorators included."""
        decorators = getattr(self.node, "decorator_list", [])
        return min(int(node.lineno) for node in (self.node, *decorators))

    @property
    def is_definition(self) -> bool:
        """True for functions, classes and imports: naming one does not change it."""
        return isinstance(
            self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
        )

    @property
    def acts(self) -> bool:
        """True for statements that compute something when they are run: not for definitions, literals, or
        what a file does only as a program."""
        node = self.node
        if self.is_definition or (isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)):
            return False
        value = getattr(node, "value", None)
        return not isinstance(value, ast.Constant | ast.Name | ast.JoinedStr) and any(
            isinstance(part, ast.Call | ast.BinOp | ast.Raise | ast.Assert) for part in ast.walk(node)
        )


def read_statements(source: str) -> tuple[Statement, ...]:
    """Parse a cell. Raises ``ProblemError`` with the line for text that is not Python."""
    try:
        tree = syntax.module(source, CELL)
    except SyntaxError as error:
        text = (error.text or "").strip()
        hint = (
            " (magics and shell commands cannot be part of a problem)" if text.startswith(("%", "!")) else ""
        )
        raise ProblemError(f"line {error.lineno}: {error.msg}: {text}{hint}") from None
    return tuple(_statement(node) for node in tree.body)


def needed(statements: tuple[Statement, ...], roots: Iterable[str]) -> tuple[Statement, ...]:
    """Backward slice: the statements that ``roots`` depend on, in order.

    A statement is kept when it binds a name that is needed, or changes an object that is needed
    (``model.eval()``); seeds and future imports are always kept.
    """
    names = set(roots)
    kept: set[int] = set()
    values = {name for s in statements if not s.is_definition for name in s.binds}
    grown = True
    while grown:
        grown = False
        for index, statement in enumerate(statements):
            if index not in kept and _is_needed(statement, names, values):
                kept.add(index)
                names |= statement.uses
                grown = True
    return tuple(statements[index] for index in sorted(kept))


def free_names(statements: tuple[Statement, ...]) -> dict[str, int]:
    """Names used but bound nowhere in ``statements``, with the line of the first use.

    Includes those of ``ALWAYS``, which a notebook may have given another meaning.
    """
    bound = {name for s in statements for name in s.binds} | set(dir(builtins))
    bound |= {"__name__", "__file__", "__doc__"}
    found: dict[str, int] = {}
    for statement in statements:
        for name in sorted(statement.uses - bound):
            found.setdefault(name, _line_of(statement, name))
    return found


def _is_needed(statement: Statement, names: set[str], values: set[str]) -> bool:
    node = statement.node
    if isinstance(node, ast.ImportFrom) and (node.module == "__future__" or node.names[0].name == "*"):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = ast.unparse(node.value.func)
        if called in _SEEDS:
            return True
    return bool(statement.binds & names) or bool(statement.touches & names & values)


def _statement(node: ast.stmt) -> Statement:
    table = symtable.symtable(ast.unparse(node), CELL, "exec")
    binds = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }
    return Statement(node, frozenset(binds), frozenset(_uses(table)), frozenset(_touches(node)))


def _uses(table: symtable.SymbolTable) -> set[str]:
    top = table.get_type() == "module"
    names = {s.get_name() for s in table.get_symbols() if s.is_referenced() and (top or s.is_global())}
    for child in table.get_children():
        names |= _uses(child)
    return names


def _touches(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return set()
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            found.add(_root(part.func))
        elif isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store):
            found.add(_root(part))
        elif isinstance(part, ast.For):
            found |= {n.id for n in ast.walk(part.iter) if isinstance(n, ast.Name)}
    if not isinstance(node, ast.Expr | ast.For | ast.With | ast.If | ast.Try) and not _stores_into(node):
        return set()
    return found - {""}


def _stores_into(node: ast.stmt) -> bool:
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    return any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _line_of(statement: Statement, name: str) -> int:
    lines = [n.lineno for n in ast.walk(statement.node) if isinstance(n, ast.Name) and n.id == name]
    return min(lines, default=statement.line)
