"""Losses with a label at every place: places and labels are as many, and one kernel makes the mean too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed as crossing
from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench.errors import ProblemError
from workbench.model import Vector
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of

LAST: Vector = (("row_totals", "last"), ("threads_per_row", "thread"))
LAYOUTS: dict[str, Vector] = {
    "plain": (),
    "kept": (*LAST, ("row_cache", "registers"), ("block_size", "64")),
    "once": (*LAST, ("single_pass", "on")),
    "bundle": (("threads_per_row", "bundle"), ("block_size", "256"), ("vector_width", "4")),
}


def crossed(t: dict[str, Tensor], reduction: str = "mean") -> Tensor:
    return F.cross_entropy(t["x"], t["label"], reduction=reduction)


def likelihood(t: dict[str, Tensor], reduction: str = "mean") -> Tensor:
    return F.nll_loss(t["x"].log_softmax(1), t["label"], reduction=reduction)


def tensors_of(*shape: int) -> dict[str, Tensor]:
    torch.manual_seed(0)
    label = torch.randint(0, shape[1], (shape[0], *shape[2:]))
    label.view(-1)[1::3] = -100
    return {"x": torch.randn(shape) * 4 + 100, "label": label}


@pytest.mark.many(2)
@pytest.mark.parametrize("call", [crossed, likelihood])
def test_the_labels_sizes_are_those_of_the_places(call: partial[Tensor]) -> None:
    problem = problem_of(call, tensors_of(2, 5, 3, 7))
    dims = {spec.name: spec.dims for spec in problem.tensors}
    assert dims["label"] == (dims["x"][0], *dims["x"][2:])
    steps = program_of(problem, True).steps
    kernels = [step for step in steps if isinstance(step, Kernel)]
    assert len(kernels) == 2
    source = generate(problem, settled(problem, LAYOUTS["kept"])).kernel.source
    assert source.count("__global__") == 1


Loss = Callable[..., Tensor]
SHAPES = [(2, 5, 3, 7), (1, 21, 8, 8), (3, 2, 5), (2, 3, 2, 3, 4)]


@pytest.mark.many(29)
@pytest.mark.parametrize(("layout", "reduction"), crossing(LAYOUTS, ["mean", "sum", "none"]))
@pytest.mark.parametrize(("shape", "loss"), crossing(SHAPES, [crossed, likelihood]))
def test_places_of_any_number(layout: str, reduction: str, shape: tuple[int, ...], loss: Loss) -> None:
    call = partial(loss, reduction=reduction)
    tensors = tensors_of(*shape)
    problem = problem_of(call, tensors)
    source = generate(problem, settled(problem, LAYOUTS[layout])).kernel.source
    check(call, source, tensors, "checked")


def test_labels_of_other_places_are_refused() -> None:
    tensors = tensors_of(2, 5, 3, 7)
    tensors["label"] = tensors["label"][:, :, :4].contiguous()
    with pytest.raises(ProblemError, match="labels"):
        problem_of(crossed, tensors)
