"""A sum that each block adds to is stored where it has become long, and not made again from all its parts."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of
from workbench.model import H100
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors

Tensors = dict[str, Tensor]
BLOCKS, WIDTH = 5, 12
SHAPES = {"x": (7, WIDTH)} | {f"w{n}": (WIDTH, WIDTH) for n in range(BLOCKS)}


def stream(t: Tensors) -> Tensor:
    """Blocks that add to what they read."""
    x = t["x"]
    for number in range(BLOCKS):
        x = x + F.layer_norm(x, (WIDTH,)) @ t[f"w{number}"]
    return F.layer_norm(x, (WIDTH,))


def side_by_side(t: Tensors) -> Tensor:
    """As many products that are added up once: nobody reads their sum a second time."""
    made = [t["x"] @ t[f"w{number}"] for number in range(BLOCKS)]
    return F.layer_norm(t["x"] + sum(made), (WIDTH,))


def fused(call: object, tensors: Tensors) -> str:
    problem = problem_of(call, tensors)  # type: ignore[arg-type]
    vector = next(c.vector for c in seed_vectors(problem, H100, count=4) if ("fusion", "all") in c.vector)
    return generate(problem, vector).kernel.source


@pytest.mark.slow
@pytest.mark.many(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_no_kernel_reads_more_than_three_tensors(dtype: torch.dtype) -> None:
    tensors = {name: tensor.to(dtype) for name, tensor in of(**SHAPES)().items()}
    source = fused(stream, tensors)
    plan = plan_of(source, tensors)
    assert len(plan.launches) == BLOCKS + 1, "what is stored is stored by the norm that makes it anyway"
    most = max(len(launch.args) for launch in plan.launches)
    assert most == 5, "three read, a norm and a sum written"
    check(stream, source, tensors)


def test_a_sum_that_is_read_once_is_not_stored() -> None:
    tensors = of(**SHAPES)()
    source = fused(side_by_side, tensors)
    assert len(plan_of(source, tensors).launches) == 1
    check(side_by_side, source, tensors)
