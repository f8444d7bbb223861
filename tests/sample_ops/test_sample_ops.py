"""Every sample opens, says why it is interesting, and can be checked and traced."""

import ast
from functools import cache
from pathlib import Path

import pytest
import torch

from workbench.model import Problem, size_of
from workbench.numerics.inputs import draw
from workbench.problem.capture import read_file
from workbench.problem.opening import open_capture
from workbench.problem.reference import Reference

torch.set_num_threads(1)
FOLDER = Path(__file__).parents[2] / "sample_ops"
SAMPLES = sorted(FOLDER.glob("*.py"))


@cache
def opened(path: Path) -> Problem:
    return open_capture(read_file(path), lambda note: None)


def test_there_are_enough() -> None:
    assert len(SAMPLES) >= 12


@pytest.mark.many(2)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample(path: Path) -> None:
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text)) or ""
    assert "Why it is interesting:" in docstring and "Look for:" in docstring
    problem = opened(path)
    assert problem.name.lower().replace("_", "") == path.stem.replace("_", "")
    assert len(problem.cases) >= 2 and len(problem.proofs) >= 4 and problem.symbols
    assert problem.graph.nodes
    told = "needless work" if path.stem == "linear_rowsum" else "evaluation mode"
    assert all(told in note for note in problem.notes)
    _check_reference(problem)


def _check_reference(problem: Problem) -> None:
    case = problem.proofs[1]
    tensors = draw(problem, case, "normal", 0)
    reference = Reference(problem)
    exact = reference.oracle(tensors)
    for spec, result, wide in zip(problem.outputs, reference.call(tensors), exact, strict=True):
        assert tuple(result.shape) == tuple(size_of(dim, case.size_map) for dim in spec.dims)
        if result.dtype.is_floating_point:
            loose = 0.02 if result.dtype == torch.bfloat16 else 1e-4
            assert torch.allclose(result.double(), wide, rtol=loose, atol=loose, equal_nan=True)
        else:
            assert torch.equal(result, wide)


def test_softmax_is_the_demo() -> None:
    problem = opened(FOLDER / "softmax.py")
    assert [case.label for case in problem.cases] == ["4096x32768", "16x16384", "4096x1024", "1x1048576"]
