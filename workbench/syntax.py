"""Python text as a syntax tree, one thread at a time.

Until Python 3.13 the interpreter counts the depth of the trees it builds in one place for all threads: when
one builds a tree while another does, both may end in a SystemError. Sessions judge kernels in several
threads, so every tree of this package is built here. Knows nothing of what the text means.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

_ATTEMPTS = 5
"""Code that is not ours (a notebook, a test runner) builds trees too, and holds no lock of ours."""
_one_at_a_time = threading.Lock()

Tree = TypeVar("Tree", ast.Module, ast.Expression)


def module(text: str, filename: str = "<text>") -> ast.Module:
    """Statements. Raises ``SyntaxError``, and what ``ast.parse`` raises for text that is too deep."""
    return _built(lambda: ast.parse(text, filename))


@lru_cache(maxsize=4096)
def expression(text: str) -> ast.expr:
    """One expression; the tree is shared, so read it only. Raises as ``module`` does."""
    return _built(lambda: ast.parse(text, mode="eval")).body


def _built(build: Callable[[], Tree]) -> Tree:
    with _one_at_a_time:
        for _ in range(_ATTEMPTS - 1):
            try:
                return build()
            except SystemError:
                continue
        return build()
