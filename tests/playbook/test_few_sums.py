"""Products of few results as sums along rows: normal equations, with what their columns are made of."""

from __future__ import annotations

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import reference, run
from tests.problem.test_intake import opened
from workbench.model import Vector
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import applying

Tensors = dict[str, torch.Tensor]


def beside(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.ones_like(x[..., :1]), x], -1)


CALLS: dict[str, tuple[Call, Tensors]] = {
    "a batch": (
        lambda t: t["a"].transpose(1, 2) @ t["b"],
        {"a": torch.randn(3, 40, 2), "b": torch.randn(3, 40, 5)},
    ),
    "one": (lambda t: t["a"].t() @ t["a"], {"a": torch.randn(70, 3)}),
    "columns that are formulas": (
        lambda t: (beside(t["a"]) * t["w"][..., None]).transpose(1, 2) @ beside(t["a"]),
        {"a": torch.randn(3, 33, 2), "w": torch.rand(3, 33)},
    ),
    "halves": (
        lambda t: t["a"].t() @ t["b"],
        {"a": torch.randn(64, 2).bfloat16(), "b": torch.randn(64, 3).bfloat16()},
    ),
}  # fmt: skip
VECTORS: list[Vector] = [
    (),
    (("row_cache", "registers"), ("threads_per_row", "warp"), ("vector_width", "4")),
    (("grid_split", "on"), ("single_pass", "on")),
]


@pytest.mark.many(3)
@pytest.mark.parametrize("name", CALLS)
def test_as_torch_has_them(name: str) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, varying=False)
    assert "few_sums" in applying(problem)
    for vector in VECTORS:
        source = generate(problem, vector).kernel.source
        assert "mm" not in source
        done = run(source, tensors, "checked", races=True)
        assert not done.report.hazards, done.report.hazards[0].message
        (right,) = reference(call, tensors)
        rough = 2e-2 if tensors["a"].dtype == torch.bfloat16 else 1e-4
        torch.testing.assert_close(done.outputs[0].double(), right, rtol=rough, atol=rough)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(9, 8, 40), (2, 3, 12)])
def test_more_results_or_shorter_sums_are_another_rules(rows: int, columns: int, depth: int) -> None:
    tensors = {"a": torch.randn(3, depth, rows), "b": torch.randn(3, depth, columns)}
    problem = problem_of(lambda t: t["a"].transpose(1, 2) @ t["b"], tensors, varying=False)
    assert "few_sums" not in applying(problem)


def test_few_results_have_known_sizes() -> None:
    source = "def f(a, b):\n    return a.transpose(1, 2) @ b\n"
    problem = opened(f"{source}inputs = [torch.randn(5, 400, 3), torch.randn(5, 400, 2)]\n")
    assert [spec.dims[2] for spec in problem.tensors] == [3, 2]
    assert all(isinstance(spec.dims[1], str) for spec in problem.tensors)
