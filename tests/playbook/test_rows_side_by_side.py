"""Rows that lie side by side are gone through as memory has them, whatever order torch gives them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check
from workbench.model import Vector
from workbench.playbook.generate import generate


def groups_of(x: Tensor) -> Tensor:
    """A sound's channels in threes, moment by moment: (batch, channels, time) as (batch, time, groups, 4)."""
    batch, channels, time = x.shape
    return x.transpose(1, 2).reshape(batch, time, channels // 4, 4)


def codes(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """A quantiser's: rounded elements where they came from, and a number for each group."""
    steps = torch.tanh(groups_of(t["x"])) * t["half"]
    rounded = steps.round()
    index = ((rounded + t["half"]) * t["basis"]).sum(-1).to(torch.int32)
    return rounded.reshape(t["x"].shape[0], t["x"].shape[2], -1).transpose(1, 2).contiguous(), index


CALLS: dict[str, Call] = {
    "sums": lambda t: groups_of(t["x"]).sum(-1),
    "largest and its place": lambda t: groups_of(t["x"]).max(-1),
    "sums of groups first": lambda t: groups_of(t["x"]).square().sum(-1).permute(2, 0, 1).contiguous(),
    "shares": lambda t: F.softmax(groups_of(t["x"]), -1),
    "shares where they came from": lambda t: (
        F.softmax(groups_of(t["x"]), -1).permute(0, 2, 3, 1).contiguous()
    ),
    "of unit length, and their sum": lambda t: F.normalize(groups_of(t["x"]), dim=-1).sum((1, 3)),
    "codes": codes,
}
TENSORS = {
    **of(x=(2, 12, 45))(),
    "half": torch.tensor([3.5, 2.0, 2.0, 2.0]),
    "basis": torch.tensor([1.0, 8.0, 40.0, 200.0]),
}
VECTORS: tuple[Vector, ...] = (
    (),
    (("vector_width", "4"),),
    (("few_terms", "on"), ("vector_width", "4")),
    (("few_terms", "off"), ("row_cache", "registers"), ("vector_width", "4")),
    (("few_terms", "off"), ("threads_per_row", "block")),
    (("few_terms", "off"), ("threads_per_row", "warp")),
)


def tensors_of(name: str) -> dict[str, Tensor]:
    return TENSORS if name == "codes" else {"x": TENSORS["x"]}


@pytest.mark.many(7)
@pytest.mark.parametrize(("name", "vector"), crossed(CALLS, VECTORS))
def test_rows_in_the_order_of_memory_are_right(name: str, vector: Vector) -> None:
    tensors = tensors_of(name)
    problem = problem_of(CALLS[name], tensors, "grouped")
    check(CALLS[name], generate(problem, vector).kernel.source, tensors, "checked")


@pytest.mark.parametrize("name", ["sums of groups first", "shares where they came from"])
def test_neighbouring_threads_read_what_lies_side_by_side(name: str) -> None:
    tensors = tensors_of(name)
    vector: Vector = (("few_terms", "off"), ("threads_per_row", "thread"))
    source = generate(problem_of(CALLS[name], tensors), vector).kernel.source
    counts = check(CALLS[name], source, tensors, "checked").report.counts
    assert counts is not None
    read = [site for site in counts.sites if site.kind == "load"]
    assert sum(site.transactions for site in read) < 1.5 * sum(site.ideal_transactions for site in read)
