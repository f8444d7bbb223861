"""Recurrences over shifted values: what only a branch computes is spelled there, and not without end."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench.model import Vector
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]
STEPS = 6


def alignments(t: Tensors) -> Tensor:
    """The sum over paths of a label sequence, as a loss over them goes along time."""
    scores = t["x"]
    total = scores[:, 0]
    for step in range(1, STEPS):
        before = torch.nn.functional.pad(total, (1, 0), value=-9.0)[:, :-1]
        total = torch.logaddexp(total, before) + scores[:, step]
    return total


@pytest.mark.many(5)
@pytest.mark.parametrize("layout", [(), (("vector_width", "4"),), (("fusion", "none"),)])
def test_a_recurrence_over_shifted_values_stays_short(layout: Vector) -> None:
    tensors = {"x": torch.randn(3, STEPS, 7)}
    source = generate(problem_of(alignments, tensors, varying=False), layout).kernel.source
    assert len(source) < 60_000
    check(alignments, source, tensors, "checked")


def test_a_few_steps_are_one_kernel() -> None:
    def short(t: Tensors) -> Tensor:
        x = t["x"]
        return torch.nn.functional.pad(x.tanh(), (1, 0))[:, :-1] * x + x

    tensors = {"x": torch.randn(3, 7)}
    source = generate(problem_of(short, tensors), ()).kernel.source
    assert source.count("__global__") == 1
    check(short, source, tensors, "checked")
