"""A kernel's parameters at one launch: macros expanded, template arguments put in, types looked up.

Owns the reading of parameter declarations. A type it cannot understand becomes ``kind=None``, which
every argument fits: the compiler will judge it. Never refuses an argument (arguments.py does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.plan.cuda_types import CudaType, builtin
from workbench.plan.expression import KernelName, join
from workbench.plan.lexer import words
from workbench.plan.signature import KernelTable, Signature
from workbench.plan.templates import Words, split_list

_RESTRICT = frozenset(("__restrict__", "__restrict", "restrict"))
_DROPPED = frozenset(
    ("volatile", "register", "typename", "struct", "class", "enum", "union", "constexpr", "__grid_constant__")
)
_TYPE_KEYWORDS = frozenset(
    ("signed", "unsigned", "char", "short", "int", "long", "float", "double", "bool", "void")
)
_PREFIXES = (("std", "::"), ("cuda", "::", "std", "::"), ("::",))
_MOST_DEEP = 16
_MOST_TOKENS = 10_000
"""Of a parameter list; macros and defaults that name each other can grow without end."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel as far as it is understood."""

    name: str
    text: str
    """Its type, or the type it points to, as C++ text without const."""
    kind: CudaType | None
    """The type, or the pointee's; None when it is not understood."""
    pointer: bool | None
    """None when even that is not understood."""
    const: bool = False
    """True when the pointee is const, or may be."""
    restrict: bool = False


Environment = Mapping[str, Words | None]
"""What a name stands for; None for a name that may be anything."""


def parameters_of(
    signature: Signature, kernel: KernelName, table: KernelTable, consts: tuple[tuple[str, str], ...]
) -> tuple[Parameter, ...] | None:
    """The parameters at one launch; None when not even their number is certain."""
    tokens = _expand(signature.parameters, _macros(table, consts))
    if tokens is None or "..." in tokens:
        return None
    if tokens in ((), ("void",)):
        return ()
    template = _template_names(signature, kernel)
    tokens = _substitute(tokens, template)
    unbound = {name: None for name, value in template.items() if value is None}
    names: Environment = {**table.aliases, **dict.fromkeys(table.types), **unbound}
    return tuple(_parameter(part, names) for part in split_list(tokens))


def _macros(table: KernelTable, consts: tuple[tuple[str, str], ...]) -> Environment:
    """The file's macros and the launch's; one that both define may be either."""
    given = {name: words(text) if name not in table.macros else None for name, text in consts}
    return {**table.macros, **given} if given else table.macros


def _expand(tokens: Words, macros: Environment) -> Words | None:
    """Tokens with object-like macros replaced; None when one cannot be, or there is no end to it."""
    pending: list[tuple[str, frozenset[str]]] = [(t, frozenset()) for t in reversed(tokens)]
    result: list[str] = []
    for _ in range(_MOST_TOKENS):
        if not pending:
            return tuple(result)
        token, inside = pending.pop()
        if token not in macros or token in inside:
            result.append(token)
            continue
        body = macros[token]
        if body is None or len(pending) + len(body) > _MOST_TOKENS:
            return None
        pending.extend((t, inside | {token}) for t in reversed(body))
    return None


def _template_names(signature: Signature, kernel: KernelName) -> dict[str, Words | None]:
    """Template parameters with what this launch puts in for them."""
    names: dict[str, Words | None] = {}
    given = kernel.arguments or ()
    for i, parameter in enumerate(signature.template or ()):
        value = given[i] if i < len(given) else parameter.default
        if parameter.pack or any(p.pack for p in (signature.template or ())[:i]):
            value = ()
        # A default may name an earlier parameter: put that in now, so that names never loop.
        bound = _substitute(value, names)
        names[parameter.name] = bound if 0 < len(bound) < _MOST_TOKENS else None
    return names


def _substitute(tokens: Words, names: Environment) -> Words:
    return tuple(w for token in tokens for w in (names.get(token) or (token,)))


def _parameter(declaration: Words, names: Environment) -> Parameter:
    """Read one declaration such as ``const float* __restrict__ x``."""
    tokens = _without_attributes(declaration)
    if "=" in tokens:
        tokens = tokens[: tokens.index("=")]
    if {"(", "&", "decltype"} & set(tokens):
        last = tokens[-1] if tokens and tokens[-1].isidentifier() else ""
        return Parameter(last, join(tokens), None, None, const=True)
    restrict = bool(_RESTRICT & set(tokens))
    plain = tuple(t for t in tokens if t not in _RESTRICT and t not in _DROPPED)
    if "[" in plain:
        at = plain.index("[")
        plain = (*plain[: at - 1], "*", *plain[at - 1 : at])
    stars = _stars(plain)
    if not stars:
        return _by_value(plain, names)
    kind, const = resolve(plain[: stars[0]], names)
    name = plain[-1] if plain[-1].isidentifier() and plain[-1] != "const" else ""
    text = join(tuple(t for t in plain[: stars[0]] if t != "const"))
    if len(stars) > 1:
        return Parameter(name, text + "*", None, True, const=True)
    return Parameter(name, kind.text if kind else text, kind, True, const, restrict)


def _by_value(plain: Words, names: Environment) -> Parameter:
    tokens = tuple(t for t in plain if t != "const")
    named = (
        len(tokens) > 1
        and tokens[-1].isidentifier()
        and tokens[-2] != "::"
        and tokens[-1] not in _TYPE_KEYWORDS
    )
    type_tokens = tokens[:-1] if named else tokens
    kind, _ = resolve(type_tokens, names)
    text = kind.text if kind else join(type_tokens)
    return Parameter(tokens[-1] if named else "", text, kind, None if kind is None else False, const=True)


def resolve(tokens: Words, names: Environment, depth: int = _MOST_DEEP) -> tuple[CudaType | None, bool]:
    """The built-in type some tokens stand for, and whether they make it const.

    Where the type is not understood the answer is ``(None, True)``: it may well be const.
    """
    const = "const" in tokens
    bare = tuple(t for t in tokens if t != "const" and t not in _DROPPED)
    for prefix in _PREFIXES:
        if bare[: len(prefix)] == prefix:
            bare = bare[len(prefix) :]
            break
    if len(bare) == 1 and bare[0] in names:
        target = names[bare[0]]
        if target is None or "*" in target or not depth:
            return None, True
        kind, inner = resolve(target, names, depth - 1)
        return kind, const or inner
    kind = builtin(bare)
    return kind, const or kind is None


def _without_attributes(tokens: Words) -> Words:
    """The declaration without ``[[...]]``, ``alignas(...)`` and their like."""
    result: list[str] = []
    skip, depth, i = False, 0, 0
    while i < len(tokens):
        token = tokens[i]
        if not skip and (
            tokens[i : i + 2] == ("[", "[") or token in ("alignas", "__align__", "__attribute__")
        ):
            skip, depth = True, 0
            i += token != "["
        if skip:
            depth += (tokens[i : i + 1] in (("(",), ("[",))) - (tokens[i : i + 1] in ((")",), ("]",)))
            skip = depth > 0
        else:
            result.append(token)
        i += 1
    return tuple(result)


def _stars(tokens: Words) -> list[int]:
    """Indices of the ``*`` outside template arguments."""
    found, depth = [], 0
    for i, token in enumerate(tokens):
        depth += (token == "<") - (token == ">")
        if token == "*" and depth == 0:
            found.append(i)
    return found
