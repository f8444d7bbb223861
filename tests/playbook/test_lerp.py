"""Between two tensors by a number: from the nearer end, which the number says and no element is asked."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate


@pytest.mark.parametrize("weight", [0.2, 0.5, 0.7, -0.6, 1.0])
def test_the_nearer_end_is_known_before_there_is_a_kernel(weight: float) -> None:
    def between(t: dict[str, Tensor]) -> Tensor:
        return torch.lerp(t["a"], t["b"], weight)

    torch.manual_seed(0)
    tensors = {"a": 100 * torch.randn(3, 37), "b": torch.randn(3, 37)}
    source = generate(problem_of(between, tensors), ()).kernel.source
    check(between, source, tensors)
    assert "fabsf" not in source and "?" not in source
