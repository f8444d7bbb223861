"""Steps of a recurrence between products of a library: each reads the step before, and computes it once."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.ir.expr import walk_all
from workbench.playbook.ir.program import Kernel
from workbench.playbook.lowering.lower import lower

Tensors = dict[str, Tensor]


def gated(t: Tensors) -> Tensor:
    """The state has an axis more where it is gated than where it is multiplied, as torch's own GRU has it."""
    state, states = t["h"].unsqueeze(0), []
    for x in t["x"]:
        product = (state.view(4, 16) @ t["w"]).unsqueeze(0)
        gate = torch.sigmoid(product + x)
        state = (state - torch.tanh(product * gate)) * gate + x
        states.append(state)
    return torch.cat(states)


def tensors_of(steps: int) -> Tensors:
    torch.manual_seed(0)
    return {"x": torch.randn(steps, 4, 16), "h": torch.randn(4, 16), "w": torch.randn(16, 16) / 4}


@pytest.mark.many(2)
@pytest.mark.parametrize("steps", [3, 8])
def test_a_step_is_as_long_as_any_other(steps: int) -> None:
    program = lower(problem_of(gated, tensors_of(steps)), fuse=True)
    kernels = [step for step in program.steps if isinstance(step, Kernel)]
    lengths = [len(list(walk_all([store.value for store in kernel.stores]))) for kernel in kernels]
    assert max(lengths) <= 24, lengths


def test_the_numbers_are_the_same() -> None:
    tensors = tensors_of(5)
    check(gated, generate(problem_of(gated, tensors), (("fusion", "all"),)).kernel.source, tensors, "checked")
