"""A file is called a file, and a line of it that is not run is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.errors import ProblemError
from workbench.problem.capture import read_cell, read_file
from workbench.problem.opening import open_capture

GOOD = "def f(x):\n    return torch.relu(x) * 2\ninputs = [torch.randn(8, 16)]\n"


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "problem.py"
    file.write_text(text)
    return file


def test_an_error_of_the_file_is_the_files(tmp_path: Path) -> None:
    text = "import torch\nimport no_such_module_at_all as n\n" + GOOD.replace("* 2", "* n.two")
    with pytest.raises(ProblemError, match="line 2: the file raised ModuleNotFoundError"):
        open_capture(read_file(written(tmp_path, text)), lambda _: None)
    with pytest.raises(ProblemError, match="line 2: the cell raised ModuleNotFoundError"):
        open_capture(read_cell(text), lambda _: None)


def test_what_is_missing_is_missing_in_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    with pytest.raises(ProblemError, match="nothing named 'h' is defined in the file"):
        read_file(file, "h")
    with pytest.raises(ProblemError, match=r"no function or .* in the file") as caught:
        read_file(written(tmp_path, "x = 1\n"))
    assert "%cuda_optimize" not in str(caught.value)


def test_a_line_that_fails_and_is_not_needed_is_told(tmp_path: Path) -> None:
    heard: list[str] = []
    problem = open_capture(read_file(written(tmp_path, "print(1 / 0)\n" + GOOD)), heard.append)
    assert "line 1 was not run: neither the reference nor its inputs need it" in problem.notes
    assert heard[0] == "reading the file"
