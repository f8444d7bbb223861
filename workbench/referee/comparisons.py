"""Numbers that a CUDA text compares with, however they are written. Pure.

``n > 2500``, ``0x9c4u <= n``, ``n < 4 * 1024``, and ``n < most`` where text or plan say what that is.
Owns which of them count: those that no small proof comes by. Never parses C++; one too many costs a check.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from workbench.plan.lexer import Token, tokens, words
from workbench.plan.operators import binary
from workbench.plan.refusal import Refused
from workbench.plan.steps import Plan, ScalarArg

LARGEST_SMALL = 2048
"""Rows of a proof are at most so long, unless the declared ones are longer."""
LARGEST = 10**11
MOST_WORDS = 9
"""Of an expression of numbers alone: ``2 * 32 * 1024`` has five."""
_COMPARING = frozenset({"<", ">", "<=", ">=", "==", "!="})
_JOINING = frozenset({"*", "+", "-", "<<"})
_WHOLE = re.compile(r"(0[xX][\da-fA-F']+|[\d']+)[uUlL]*")


def compared(source: str) -> tuple[int, ...]:
    """Numbers on either side of a comparison; of a named one all that the name is given anywhere."""
    said = tuple(_words(source))
    named = defaultdict[str, set[int]](set)
    for place, word in enumerate(said):
        if word == "=" and place:
            named[said[place - 1]].add(_whole(_term(said, place + 1)))
    found: set[int] = set()
    for place, word in enumerate(said):
        if word in _COMPARING:
            for term in (_term(said, place - 1, step=-1), _term(said, place + 1)):
                found |= named[term[0]] if term and term[0] in named else {_whole(term)}
    return tuple(sorted(n for n in found if LARGEST_SMALL < n < LARGEST))


def handed(plans: Iterable[Plan]) -> tuple[int, ...]:
    """Numbers that kernels are given at every size alike: as macros, arguments or arguments of a template."""
    given = [set(_handed(plan)) for plan in plans]
    found = set.intersection(*given) if given else set[int]()
    return tuple(sorted(n for n in found if LARGEST_SMALL < n < LARGEST))


def _handed(plan: Plan) -> Iterator[int]:
    for launch in plan.launches:
        for text in (launch.kernel, *(value for _, value in launch.consts)):
            yield from (_whole((word,)) for word in words(text) if _WHOLE.fullmatch(word))
        yield from (
            arg.value for arg in launch.args if isinstance(arg, ScalarArg) and isinstance(arg.value, int)
        )


def _words(source: str) -> Iterator[str]:
    """Words, numbers and whole operators."""
    said = (word for token in tokens(source) for word in _said(token))
    for is_operator, group in groupby(said, lambda word: word in "<>=!"):
        together = list(group)
        yield from ["".join(together)] if is_operator else together


def _said(token: Token) -> Sequence[str]:
    """What a token says; ``#define MOST 2500`` says ``MOST = 2500``."""
    if token.kind != "directive":
        return [token.text] if token.kind in ("word", "number", "sign") else []
    told = list(words(token.text.lstrip()[1:]))
    if told[:1] != ["define"] or len(told) < 3:
        return told
    return [told[1], "=", *(word for word in told[2:] if word not in "()"), ";"]


def _term(said: Sequence[str], place: int, step: int = 1) -> Sequence[str]:
    """The name that stands at a place, or the expression of numbers alone that begins, or ends, there."""
    term = said[place : place + 1]
    while len(term) < MOST_WORDS and _WHOLE.fullmatch(term[-1] if term else ""):
        operator, number = place + step, place + 2 * step
        if (
            not 0 <= number < len(said)
            or said[operator] not in _JOINING
            or not _WHOLE.fullmatch(said[number])
        ):
            break
        term, place = (*term, said[operator], said[number]), number
    return term[::step]


def _whole(term: Sequence[str]) -> int:
    """What the expression comes to; 0 for a name, an octal number and what no size is."""
    try:
        value = folded(ast.parse(" ".join(map(_plain, term)), mode="eval").body)
    except (SyntaxError, ValueError):
        return 0
    return value if isinstance(value, int) else 0


def _plain(word: str) -> str:
    """``0x9c4u`` and ``2'500`` as Python writes them."""
    number = _WHOLE.fullmatch(word)
    return str(int(number[1].replace("'", ""), 0)) if number else word


def folded(node: ast.AST) -> object:
    """Value of an expression of numbers alone, such as ``4 * 1024``; None for any other."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = folded(node.left), folded(node.right)
        if isinstance(left, int) and isinstance(right, int):
            try:
                return binary(node.op, left, right)
            except Refused:
                return None
    return None
