"""A row kept in registers: no kernel is unrolled for rows that another kernel takes."""

from __future__ import annotations

import re

import torch

from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate

KEPT = re.compile(r"constexpr int KEPT = (.*);")


def test_a_kernel_without_a_template_keeps_no_more_than_it_may() -> None:
    """NVRTC compiles it at every size, also at those whose rows are read again instead."""
    problem = problem_of(
        lambda t: torch.softmax(t["x"], 0),
        {"x": torch.empty(16, 5000)},
        cases=({"s0": 20_000, "s1": 64},),
    )
    source = generate(problem, (("fusion", "all"), ("row_cache", "registers"))).kernel.source
    assert KEPT.findall(source) == ["ROWS < 64 ? ROWS : 64"]


def test_a_template_is_compiled_only_where_it_is_launched() -> None:
    problem = problem_of(lambda t: torch.softmax(t["x"], 1), {"x": torch.empty(64, 4096)})
    vector = (("fusion", "all"), ("row_cache", "registers"), ("vector_width", "4"))
    (kept,) = KEPT.findall(generate(problem, vector).kernel.source)
    assert "?" not in kept


def test_a_shortened_row_in_shared_memory_has_room_for_all_of_it() -> None:
    def call(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.softmax(t["x"][:, 1:] * 2.0, 1)

    tensors = {"x": torch.rand(5, 33)}
    source = generate(problem_of(call, tensors), (("fusion", "all"), ("row_cache", "shared"))).kernel.source
    assert "extern __shared__" in source
    check(call, source, tensors, mode="checked")
