"""Small systems by one thread each: as torch has them, at every size that fits, and no others."""

from __future__ import annotations

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import reference, run
from tests.problem.test_intake import opened
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import applying
from workbench.problem.small_systems import MOST_INVERTED, MOST_UNKNOWNS

Tensors = dict[str, torch.Tensor]
linalg = torch.linalg


def square(rows: int, *batch: int) -> torch.Tensor:
    """With a zero in a corner, where nothing can be divided by."""
    a = torch.randn(*batch, rows, rows)
    a[..., 0, 0] = 0.0 if rows > 1 else 2.0
    return a + 0.0


def positive(rows: int, *batch: int) -> torch.Tensor:
    a = torch.randn(*batch, rows, rows)
    return a @ a.transpose(-2, -1) + torch.eye(rows)


CALLS: dict[str, tuple[Call, Tensors]] = {
    "inverses": (lambda t: linalg.inv(t["a"]), {"a": square(3, 9)}),
    "one inverse": (lambda t: linalg.inv(t["a"]), {"a": square(2)}),
    "used": (lambda t: linalg.inv(t["a"]) @ t["b"], {"a": square(2, 9), "b": square(2, 9)}),
    "numbers": (lambda t: linalg.inv(t["a"]), {"a": square(1, 9)}),
    "two axes before": (lambda t: linalg.inv(t["a"]), {"a": square(4, 2, 5)}),
    "determinants": (lambda t: linalg.det(t["a"]), {"a": square(4, 9)}),
    "signs and logarithms": (lambda t: tuple(linalg.slogdet(t["a"])), {"a": square(5, 9)}),
    "solutions": (lambda t: linalg.solve(t["a"], t["b"]), {"a": square(6, 9), "b": torch.randn(9, 6, 2)}),
    "one side": (lambda t: linalg.solve(t["a"], t["b"]), {"a": square(3, 9), "b": torch.randn(9, 3)}),
    "factors": (lambda t: linalg.cholesky(t["a"]), {"a": positive(4, 9)}),
    "upper factors": (lambda t: linalg.cholesky(t["a"], upper=True), {"a": positive(3, 9)}),
    "by a factor": (
        lambda t: torch.cholesky_solve(t["b"], t["a"]),
        {"a": linalg.cholesky(positive(3, 9)), "b": torch.randn(9, 3, 2)},
    ),
    "by an upper factor": (
        lambda t: torch.cholesky_solve(t["b"], t["a"], upper=True),
        {"a": linalg.cholesky(positive(3, 9), upper=True), "b": torch.randn(9, 3, 1)},
    ),
    "inverses by a factor": (
        lambda t: torch.cholesky_inverse(t["a"]),
        {"a": linalg.cholesky(positive(3, 9))},
    ),
    "lower triangles": (
        lambda t: linalg.solve_triangular(t["a"], t["b"], upper=False),
        {"a": positive(4, 9), "b": torch.randn(9, 4, 3)},
    ),
    "many sides": (lambda t: linalg.solve(t["a"], t["b"]), {"a": square(3, 2), "b": torch.randn(2, 3, 40)}),
    "one matrix": (lambda t: linalg.solve(t["a"], t["b"]), {"a": square(4), "b": torch.randn(9, 4, 2)}),
    "batches that are spread": (
        lambda t: linalg.solve(t["a"][:, None], t["b"]),
        {"a": square(3, 2), "b": torch.randn(5, 3, 2)},
    ),
    "rows": (
        lambda t: linalg.solve_triangular(t["a"], t["b"], upper=True, left=False),
        {"a": positive(4, 3), "b": torch.randn(3, 40, 4)},
    ),
    "few rows": (
        lambda t: linalg.solve(t["a"], t["b"], left=False),
        {"a": square(3, 9), "b": torch.randn(9, 2, 3)},
    ),
    "many sides of one factor": (
        lambda t: torch.cholesky_solve(t["b"], t["a"]),
        {"a": linalg.cholesky(positive(3)), "b": torch.randn(3, 70)},
    ),
    "upper triangles of ones": (
        lambda t: linalg.solve_triangular(t["a"], t["b"], upper=True, unitriangular=True),
        {"a": positive(4, 9), "b": torch.randn(9, 4, 2)},
    ),
}  # fmt: skip


@pytest.mark.many(6)
@pytest.mark.parametrize("name", CALLS)
def test_as_torch_has_them(name: str) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, varying=False)
    assert "solved_in_registers" in applying(problem)
    kernel = generate(problem, ()).kernel.source
    assert "linalg" not in kernel and "cholesky_" not in kernel
    done = run(kernel, tensors, "checked", races=True)
    assert not done.report.hazards, done.report.hazards[0].message
    for one, right in zip(done.outputs, reference(call, tensors), strict=True):
        torch.testing.assert_close(one.double(), right, rtol=1e-3, atol=1e-4)
    left = generate(problem, (("solved_in_registers", "off"),)).kernel.source
    assert "linalg" in left or "cholesky_" in left


def test_the_determinant_of_a_singular_matrix_is_zero() -> None:
    tensors = {"a": torch.randn(4, 3, 3)}
    tensors["a"][0, :, 1] = 0.0
    tensors["a"][1] = 0.0
    source = generate(problem_of(lambda t: linalg.det(t["a"]), tensors, varying=False), ()).kernel.source
    (found,) = run(source, tensors, "checked").outputs
    assert found[:2].tolist() == [0.0, 0.0] and bool(found.isfinite().all())


TOLD: dict[str, Call] = {
    "inverses": lambda t: linalg.inv_ex(t["a"]).info,
    "solutions": lambda t: linalg.solve_ex(t["a"], t["b"]).info,
    "factors": lambda t: linalg.cholesky_ex(t["s"]).info,
    "of many sides": lambda t: linalg.solve_ex(t["a"], t["s"] @ t["c"]).info,
}


@pytest.mark.parametrize("name", TOLD)
def test_which_pivot_is_none_is_told(name: str) -> None:
    """Who asks for no exception looks there."""
    tensors = {"a": square(3, 5), "b": torch.randn(5, 3), "s": positive(3, 5), "c": torch.randn(3, 9)}
    tensors["a"][1, :, 1] = 0.0
    tensors["a"][3] = 0.0
    tensors["s"][2, 2, 2] = -4.0
    tensors["s"][4, 0, 0] = 0.0
    call = TOLD[name]
    names = {"inverses": "a", "solutions": "ab", "factors": "s", "of many sides": "asc"}[name]
    given = {key: tensors[key] for key in names}
    problem = problem_of(call, given, varying=False)
    assert "solved_in_registers" in applying(problem)
    source = generate(problem, ()).kernel.source
    (found,) = run(source, given, "checked").outputs
    assert torch.equal(found, call(given)) and int(found.count_nonzero()) == 2


@pytest.mark.parametrize(
    ("call", "tensors"),
    [
        (lambda t: linalg.inv(t["a"]), {"a": square(MOST_INVERTED + 1, 9)}),
        (lambda t: linalg.det(t["a"]), {"a": square(MOST_UNKNOWNS + 1, 9)}),
        (lambda t: linalg.inv(t["a"]), {"a": square(3, 9).double()}),
        (lambda t: linalg.solve(t["a"], t["b"]), {"a": square(5, 9), "b": torch.randn(9, 5, 40)}),
        (lambda t: linalg.lu_factor(t["a"])[0], {"a": square(3, 9)}),
    ],
)
def test_what_is_larger_stays_the_librarys(call: Call, tensors: Tensors) -> None:
    assert "solved_in_registers" not in applying(problem_of(call, tensors, varying=False))


def test_sizes_of_small_matrices_are_fixed_and_those_of_large_ones_are_not() -> None:
    source = "def f(a, b):\n    return torch.linalg.solve(a, b)\n"
    small = opened(f"{source}inputs = [torch.randn(40, 3, 3) + 2 * torch.eye(3), torch.randn(40, 3)]\n")
    assert [spec.dims[1:] for spec in small.tensors] == [(3, 3), (3,)]
    assert any("3 along axis 1 of a" in note for note in small.notes)
    large = opened(f"{source}inputs = [torch.randn(4, 30, 30) + 9 * torch.eye(30), torch.randn(4, 30)]\n")
    assert all(isinstance(dim, str) for spec in large.tensors for dim in spec.dims)


def test_comparisons_are_no_constants_to_a_compiler() -> None:
    """In a template NVRTC would ask each choice what all choices before it come to, way by way."""
    tensors = {"v": torch.randn(9, 40, 6), "y": torch.randn(9, 40)}
    call: Call = lambda t: linalg.solve(t["v"].mT @ t["v"], t["v"].mT @ t["y"][..., None])  # noqa: E731
    vector = (("threads_per_row", "eight"), ("vector_width", "4"))
    source = generate(problem_of(call, tensors, varying=False), vector).kernel.source
    assert "template <int VEC>" in source and source.count(" bool ") >= 15
    assert "const bool" not in source
