"""Trees are built one at a time, whatever the threads."""

import ast
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from workbench import syntax


def test_statements_and_expressions() -> None:
    assert isinstance(syntax.module("x = 1\n").body[0], ast.Assign)
    assert isinstance(syntax.expression("s0 // 2"), ast.BinOp)
    with pytest.raises(SyntaxError):
        syntax.module("x = = 1")


def test_many_threads_at_once() -> None:
    text = "def f(x):\n" + "    x = ((x + 1) * (x - 2)) // (x or 3)\n" * 50
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            trees = list(threads.map(lambda _: syntax.module(text), range(64)))
    finally:
        sys.setswitchinterval(before)
    assert {len(tree.body) for tree in trees} == {1}


def test_a_builder_that_was_disturbed_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([SystemError("AST constructor recursion depth mismatch"), ast.parse("x")])

    def parse(*_: object, **__: object) -> ast.AST:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(syntax.ast, "parse", parse)
    assert isinstance(syntax.module("x"), ast.Module)
