"""A row that waits in shared memory moves there in vectors, and each warp's row begins at a whole vector."""

from __future__ import annotations

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from workbench.compile import compile_kernel
from workbench.model import CompileReport
from workbench.playbook.generate import generate

SHARED = (("row_cache", "shared"), ("vector_width", "4"))


def softmax(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.softmax(t["x"], 1)


def divergence(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.kl_div(t["x"].log_softmax(1), t["y"].softmax(1), reduction="batchmean")


@pytest.mark.many(5)
@pytest.mark.parametrize("call", [softmax, divergence])
@pytest.mark.parametrize("team", ["warp", "block"])
def test_vectors_to_shared_memory_and_back(call: Call, team: str) -> None:
    tensors = {"x": torch.randn(6, 36), "y": torch.randn(6, 36)}
    vector = (*SHARED, ("block_size", "64"), ("threads_per_row", team))
    source = generate(problem_of(call, tensors), vector).kernel.source
    assert "extern __shared__ __align__(16) float shared[];" in source
    assert "store(x_kept + col, x_kept_here);" in source and "load<VEC>(x_kept + col)" in source
    check(call, source, tensors)
    report = compile_kernel(source, plan_of(source, tensors).instances)
    assert isinstance(report, CompileReport) and not report.warnings


def test_single_elements_where_nothing_is_wide() -> None:
    tensors = {"x": torch.randn(3, 35)}
    source = generate(problem_of(softmax, tensors), (("row_cache", "shared"),)).kernel.source
    assert "_here" not in source and "x_kept[col] = " in source
    check(softmax, source, tensors)
