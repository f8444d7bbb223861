"""Signatures of the ``__global__`` functions in a ``.cu`` text, read without a compiler.

Owns the scan: which kernels there are, their template parameters, the tokens of their parameter
lists, and the aliases and macros those tokens may name. Never judges a type (binding.py does), and
never refuses a text: what the scan does not understand is marked ``open`` and left to the compiler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from workbench.plan.cuda_types import builtin
from workbench.plan.lexer import Token, tokens, words
from workbench.plan.templates import TemplateParameter, Words, closing_of, template_end, template_parameters

_ATTRIBUTES = frozenset((
    "__launch_bounds__", "__attribute__", "__maxnreg__", "__cluster_dims__", "__block_size__",
    "__align__", "alignas", "noexcept", "decltype",
))  # fmt: skip
_CONDITIONAL = re.compile(r"\s*#\s*(?:if|el)")
_MOST_KERNELS = 500
_TYPE_WORDS = ("struct", "class", "union", "enum")


@dataclass(frozen=True, slots=True)
class Signature:
    """One ``__global__`` function."""

    name: str
    """Qualified with its namespaces: ``ns::softmax``."""
    template: tuple[TemplateParameter, ...] | None
    """None for a plain function."""
    parameters: Words
    """Tokens between the parentheses, macros not yet expanded."""
    line: int


@dataclass(frozen=True, slots=True)
class KernelTable:
    """All that a ``.cu`` text says about its kernels."""

    signatures: tuple[Signature, ...]
    macros: Mapping[str, Words | None]
    """Object-like macros; None for one that cannot be expanded here (function-like, redefined)."""
    aliases: Mapping[str, Words | None]
    """``using`` and ``typedef``; None where two definitions disagree."""
    types: frozenset[str]
    """Structs, classes and enums the text defines."""
    open: bool
    """True when kernels may exist that the scan cannot see, for instance behind a macro."""
    loose: bool
    """True when a namespace may be left out of a kernel's name (``using namespace``, unclear braces)."""


@lru_cache(maxsize=64)
def kernel_table(source: str) -> KernelTable:
    """Scan a ``.cu`` text. Accepts any text."""
    scan = _Scan([t for t in tokens(source) if t.kind != "comment"], source)
    scan.run()
    return KernelTable(
        tuple(scan.signatures), scan.macros, scan.aliases, frozenset(scan.types), scan.open, scan.loose
    )


class _Scan:
    """One pass over the tokens with a stack of the scopes that are open."""

    def __init__(self, found: list[Token], source: str) -> None:
        self.tokens = found
        self.source = source
        self.texts = [t.text for t in found]
        self.signatures: list[Signature] = []
        self.macros: dict[str, Words | None] = {}
        self.aliases: dict[str, Words | None] = {}
        self.types: set[str] = set()
        self.open = False
        self.loose = False
        self.scopes: list[Words] = []
        self.branches: list[list[Words]] = []
        self.start = 0
        self.seen = 0

    def run(self) -> None:
        """Fill the tables."""
        for i, token in enumerate(self.tokens):
            if token.kind == "directive":
                self._directive(token.text)
                self.start += self.start == i
            elif token.text in ("{", "}", ";"):
                head = [t.text for t in self.tokens[self.start : i] if t.kind != "directive"]
                self._boundary(token.text, head)
                self.start = i + 1
            elif token.text == "__global__":
                self._kernel(i)
        self.loose = self.loose or bool(self.scopes)
        if "requires" in self.texts:
            # A constraint may hold braces and hide the head of its template: see nothing, refuse nothing.
            self.signatures, self.open = [], True

    def _boundary(self, sign: str, head: list[str]) -> None:
        """A declaration ended or a scope opened or closed; ``head`` is what stood before."""
        if sign == ";":
            self._statement(head)
        elif sign == "{":
            self.scopes.append(self._opened(head))
        elif self.scopes:
            self.scopes.pop()
        else:
            self.loose = True

    def _opened(self, head: list[str]) -> Words:
        """Namespaces that a brace opens; none for a function, a struct or an anonymous namespace."""
        if "namespace" in head and "(" not in head:
            at = head.index("namespace")
            self.loose = self.loose or "inline" in head or "[" in head
            return tuple(t for t in head[at + 1 :] if t.isidentifier() and t != "inline")
        self._define_type(head)
        return ()

    def _define_type(self, head: list[str]) -> None:
        """Note the name of a ``struct NAME : bases`` or ``enum class NAME``."""
        head = head[template_end(head) :]
        at = next((i for i, t in enumerate(head) if t in _TYPE_WORDS), None)
        if at is not None:
            ends = [i for i, t in enumerate(head) if i > at and t in (":", "<")]
            names = [t for t in head[at + 1 : min(ends, default=len(head))] if t.isidentifier()]
            self.types.update([n for n in names if n != "final"][-1:])

    def _statement(self, head: list[str]) -> None:
        """``using A = B;``, ``typedef B A;``, ``using namespace N;``, ``struct S;``."""
        first = head[0] if head else ""
        if first == "using" and "=" in head:
            self._alias(head[1], tuple(head[head.index("=") + 1 :]))
        elif first in ("using", "namespace"):
            # Names become visible without their namespace, or under another one.
            self.loose = True
        elif first == "typedef" and len(head) > 2:
            self._typedef(head)
        elif first == "template" and "using" in head:
            self._alias("".join(head[head.index("using") + 1 :][:1]), None)
        elif first in _TYPE_WORDS:
            self._define_type(head)

    def _typedef(self, head: list[str]) -> None:
        if head[-1].isidentifier() and not {"(", "[", ","} & set(head):
            self._alias(head[-1], tuple(head[1:-1]))
        else:
            for name in head[1:]:
                if name.isidentifier() and builtin((name,)) is None:
                    self._alias(name, None)

    def _alias(self, name: str, target: Words | None) -> None:
        differs = name in self.aliases and self.aliases[name] != target
        self.aliases[name] = None if differs else target

    def _directive(self, text: str) -> None:
        """Macros, and the brace stack at ``#if`` ... ``#else``, whose branches open the same braces."""
        parts = words(re.sub(r"\\\r?\n", " ", text).strip().removeprefix("#"))
        name = parts[0] if parts else ""
        if name in ("if", "ifdef", "ifndef"):
            self.branches.append(list(self.scopes))
        elif name in ("else", "elif", "elifdef", "elifndef") and self.branches:
            self.scopes = list(self.branches[-1])
        elif name == "endif" and self.branches:
            # A namespace opened in a branch that may not be taken may not be there.
            before = [part for scope in self.branches.pop() for part in scope]
            self.loose = self.loose or before != self._namespaces()
        elif name == "define" and len(parts) > 1:
            self._define(parts[1], parts[2:], text)
        elif name == "undef" and len(parts) > 1:
            self.macros[parts[1]] = None

    def _define(self, name: str, body: Words, text: str) -> None:
        after = text[text.index(name, text.index("define") + 6) + len(name) :]
        redefined = name in self.macros and self.macros[name] != body
        self.macros[name] = None if after.startswith("(") or redefined else body
        self.open = self.open or "__global__" in body

    def _kernel(self, at: int) -> None:
        """Read one declaration whose ``__global__`` is token ``at``."""
        self.seen += 1
        found = self._declarator(at + 1) if self.seen <= _MOST_KERNELS else None
        if found is None:
            self.open = True
            return
        first, opening, closing = found
        if any(
            _CONDITIONAL.match(t.text) for t in self.tokens[self.start : closing] if t.kind == "directive"
        ):
            self.open = True
            return
        head = [t.text for t in self.tokens[self.start : at] if t.kind != "directive"]
        if first == opening:
            return  # a specialisation or explicit instantiation repeats its primary template
        name = [t for t in self.texts[first:opening] if t != "::"]
        line = self.source.count("\n", 0, self.tokens[at].start) + 1
        inside = tuple(t.text for t in self.tokens[opening + 1 : closing] if t.kind != "directive")
        full_name = "::".join((*self._namespaces(), *name))
        self.signatures.append(Signature(full_name, template_parameters(head), inside, line))

    def _namespaces(self) -> list[str]:
        return [part for scope in self.scopes for part in scope]

    def _declarator(self, i: int) -> tuple[int, int, int] | None:
        """Indices of the name, of ``(`` and of ``)`` of the function declared from token ``i`` on."""
        while i < len(self.texts) and self.texts[i] not in ("{", "}", ";", "__global__"):
            if self.texts[i] == "(":
                closing = closing_of(self.texts, i)
                if closing is None:
                    return None
                first = self._name_before(i)
                if first is not None and self._ends_declarator(closing + 1):
                    return first, i, closing
                i = closing
            i += 1
        return None

    def _name_before(self, opening: int) -> int | None:
        """Index where the qualified name before ``(`` begins: ``opening`` itself after ``k<int>``.

        None for an attribute with arguments.
        """
        i = opening - 1
        if self.texts[i] == ">":
            return opening
        if self.tokens[i].kind != "word" or self.texts[i] in _ATTRIBUTES:
            return None
        while self.texts[i - 1] == "::" and self.tokens[i - 2].kind == "word":
            i -= 2
        return i

    def _ends_declarator(self, i: int) -> bool:
        """True when a body, a ``;`` or a trailing specifier follows the parameter list."""
        after = self.texts[i] if i < len(self.texts) else "{"
        return after in ("{", ";", "->", "noexcept", "__attribute__", "[")
