"""What a name in a cell needs, and nothing more is run."""

import pytest

from workbench.errors import ProblemError
from workbench.problem.statements import free_names, needed, read_statements


def kept_lines(source: str, *roots: str) -> list[int]:
    return [statement.node.lineno for statement in needed(read_statements(source), roots)]


def test_inputs_are_not_needed_by_the_function() -> None:
    source = "def f(inputs):\n    return inputs * k\nk = 3\ninputs = [torch.randn(9)]\nprint(f(inputs[0]))"
    assert kept_lines(source, "f") == [1, 3]


def test_changes_of_a_needed_object_are_kept() -> None:
    source = (
        "model = nn.Linear(3, 3)\nmodel.eval()\nmodel.bias.data = torch.ones(3)\nprint(model)\nother.eval()"
    )
    assert kept_lines(source, "model") == [1, 2, 3]


def test_calls_of_a_needed_function_are_not_kept() -> None:
    assert kept_lines("def f(x): return x\ny = f(1)\nf(2)", "f") == [1]


def test_names_inside_nested_scopes_are_found() -> None:
    source = "a = 1\nb = 2\nclass M:\n    def g(self):\n        return [a for _ in range(3)]\n    b = 3"
    assert kept_lines(source, "M") == [1, 3]


def test_seeds_and_future_imports_are_always_kept() -> None:
    source = "from __future__ import annotations\ntorch.manual_seed(3)\ndef f(x): return x"
    assert kept_lines(source, "f") == [1, 2, 3]


def test_loops_over_a_needed_object_are_kept() -> None:
    assert kept_lines("m = g()\nfor p in m.parameters():\n    p.zero_()\n", "m") == [1, 2]


def test_free_names_have_the_line_of_their_first_use() -> None:
    statements = read_statements("def f(x):\n    y = x + 1\n    return y * scale")
    assert free_names(statements) == {"scale": 3}


def test_syntax_error_has_its_line() -> None:
    with pytest.raises(ProblemError, match=r"^line 2: .*never closed"):
        read_statements("def f(x):\n    return (x\n")


def test_magic_in_a_cell_is_explained() -> None:
    with pytest.raises(ProblemError, match=r"^line 2: .*magics and shell commands"):
        read_statements("def f(x): return x\n%timeit f\n")
