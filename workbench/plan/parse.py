"""From the text of a ``.cu`` file to a checked syntax tree of its plan and the signatures of its kernels.

Owns ``Program``. Never evaluates the plan and never compiles: the tree is walked by interpret.py.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from workbench import syntax
from workbench.errors import PlanError
from workbench.model import Diagnostic
from workbench.plan.grammar import check, instead
from workbench.plan.refusal import diagnostic, plan_error, split_lines
from workbench.plan.region import Region, find_region
from workbench.plan.signature import KernelTable, kernel_table

_REPORTED = 8
"""Complaints listed at once; the rest is mostly a consequence of them."""


@dataclass(frozen=True, slots=True)
class Program:
    """A parsed candidate: interpret it for as many shapes as wanted."""

    source: str
    lines: tuple[str, ...]
    function: ast.FunctionDef
    """Line numbers and columns are those of ``source``."""
    kernels: KernelTable

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the plan's parameters, which are tensors of the problem."""
        return tuple(a.arg for a in self.function.args.args)

    @property
    def uses_library(self) -> bool:
        """True when the plan's text has a ``library`` call, which needs torch to be interpreted."""
        return self._calls("library")

    @property
    def launches(self) -> bool:
        """True when the plan's text launches a kernel, at some sizes at least."""
        return self._calls("launch")

    def _calls(self, name: str) -> bool:
        calls = (n for n in ast.walk(self.function) if isinstance(n, ast.Call))
        return any(isinstance(c.func, ast.Name) and c.func.id == name for c in calls)

    def diagnose(self, node: ast.AST, message: str) -> Diagnostic:
        """An error message at a node of the plan."""
        return locate(self.lines, node, message)


@lru_cache(maxsize=64)
def parse(source: str) -> Program:
    """Parse the plan comment of a ``.cu`` text. Raises ``PlanError`` at the person's own lines."""
    region = find_region(source)
    lines = split_lines(source)
    function = _only_function(_tree(region, lines), region, lines)
    complaints = islice(check(function), _REPORTED)
    found = tuple(locate(lines, node, message) for node, message in complaints)
    if found:
        raise PlanError(found)
    if not any(isinstance(n, ast.Return) for n in ast.walk(function)):
        raise PlanError((locate(lines, function, "the plan has no return: return the output tensors"),))
    return Program(source, lines, function, kernel_table(source))


def locate(lines: tuple[str, ...], node: ast.AST, message: str) -> Diagnostic:
    """An error message at a node; nodes without a place are reported at the first line."""
    line = getattr(node, "lineno", 1)
    offset = getattr(node, "col_offset", -1)
    text = lines[min(line, len(lines)) - 1].encode("utf-8", "replace")
    column = len(text[:offset].decode("utf-8", "replace")) + 1 if offset >= 0 else 0
    return diagnostic(lines, line, column, message)


def _tree(region: Region, lines: tuple[str, ...]) -> list[ast.stmt]:
    """Statements of the comment. Newlines before it give Python's parser the person's line numbers."""
    for character, name in (("\\", "a backslash"), ("\0", "a null character")):
        before, found, _ = region.body.partition(character)
        if found:
            line = region.first_line + len(split_lines(before))
            raise plan_error(lines, line, 0, f"{name} is not part of the plan language")
    code = (s for s in region.body.splitlines() if s.strip() and not s.lstrip().startswith("#"))
    indented = next(code, "")[:1].isspace()
    # The opening line of the comment is free: it takes the header an indented plan needs.
    header = "if 1:\n" if indented else "\n"
    try:
        tree = syntax.module("\n" * (region.first_line - 1) + header + region.body, "<plan>")
    except SyntaxError as error:
        line = min(error.lineno or region.first_line, region.last_line)
        message = f"not valid Python: {error.msg}"
        if "<<<" in (error.text or ""):
            message = (
                'kernel<<<grid, block>>>(...) is written launch("kernel", grid=..., block=..., args=[...])'
            )
        raise plan_error(lines, line, error.offset or 0, message) from None
    except (ValueError, RecursionError, MemoryError, OverflowError):
        message = "the plan cannot be read: it is nested too deeply"
        raise plan_error(lines, region.first_line, 0, message) from None
    if indented and tree.body and isinstance(tree.body[0], ast.If):
        return [*tree.body[0].body, *tree.body[1:]]
    return tree.body


def _only_function(body: list[ast.stmt], region: Region, lines: tuple[str, ...]) -> ast.FunctionDef:
    """The one ``def plan``; a string beside it is a comment."""
    rest = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if not rest:
        raise plan_error(lines, region.first_line, 1, "the plan is empty: write def plan(...): ...")
    first = rest[0]
    stray = first if not isinstance(first, ast.FunctionDef) else rest[1] if len(rest) > 1 else None
    if stray is not None:
        message = (
            instead(stray) or "the plan comment holds one function, def plan(...), and nothing beside it"
        )
        raise PlanError((locate(lines, stray, message),))
    assert isinstance(first, ast.FunctionDef)
    if first.name != "plan":
        raise PlanError((locate(lines, first, f"the function must be named plan, not {first.name!r}"),))
    return first
