"""What a sum of columns is made of is stored as it is read: one walk over the tensor, not two."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import Vector
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel
from workbench.playbook.techniques.traits import program_of, traits_of

Tensors = dict[str, Tensor]
half, bfloat = torch.float16, torch.bfloat16


def activated(t: Tensors) -> tuple[Tensor, ...]:
    """An activation, and how much of it every column has."""
    y = torch.relu(t["x"]) * 2
    return y, y.sum(0)


def bias_gradient(t: Tensors) -> tuple[Tensor, ...]:
    """The gradient before an activation, and that of its bias: the sum over all but the last axis."""
    before = t["g"] * torch.sigmoid(t["x"])
    return before, before.float().sum((0, 1))


def middle(t: Tensors) -> tuple[Tensor, ...]:
    keys = F.elu(t["x"]) + 1
    return keys, keys.sum(1), keys.amax(1)


def channels(t: Tensors) -> tuple[Tensor, ...]:
    """Scaled by a number a column, and the moments of what was there before."""
    variance, mean = torch.var_mean(t["x"], 0)
    return t["x"] * t["w"] + 1, mean, variance


def shifted(t: Tensors) -> tuple[Tensor, ...]:
    """Each element with the one before it in its row: no neighbour of a neighbour's."""
    return t["x"] + t["x"].roll(1, 1), t["x"].sum(0)


def of(**shapes: tuple[int, ...]) -> Tensors:
    return {name: torch.randn(shape) for name, shape in shapes.items()}


CALLS: dict[str, tuple[Call, Tensors]] = {
    "activated": (activated, of(x=(37, 48))),
    "activated, odd": (activated, of(x=(130, 7))),
    "activated f16": (activated, {"x": torch.randn(200, 64, dtype=half)}),
    "bias gradient": (bias_gradient, of(g=(9, 11, 40), x=(9, 11, 40))),
    "bias gradient bf16": (
        bias_gradient,
        {name: torch.randn(12, 7, 64).to(bfloat) for name in ("g", "x")},
    ),
    "middle": (middle, of(x=(3, 50, 24))),
    "channels": (channels, of(x=(90, 32), w=(32,))),
}
VECTORS: tuple[Vector, ...] = (
    (("grid_split", "on"), ("split_join", "last"), ("columns_by", "bundle"), ("single_pass", "on")),
    (("grid_split", "on"), ("split_join", "launch"), ("columns_by", "bundle"), ("vector_width", "4")),
    (("grid_split", "on"), ("columns_by", "bundle"), ("bundle_lanes", "8"), ("vector_width", "4")),
    (("threads_per_row", "bundle"), ("single_pass", "on"), ("vector_width", "4")),
    (("threads_per_row", "thread"), ("stores", "streamed")),
)


@pytest.mark.many(6)
@pytest.mark.parametrize(("name", "vector"), crossed(CALLS, VECTORS))
def test_results_on_the_way_are_right(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    check(call, generate(problem_of(call, tensors), vector).kernel.source, tensors, "checked")


@pytest.mark.parametrize("name", CALLS)
def test_there_is_one_kernel_and_bundles_may_have_it(name: str) -> None:
    problem = problem_of(*CALLS[name])
    (kernel,) = program_of(problem, True).steps
    assert isinstance(kernel, Kernel) and {store.level for store in kernel.stores} == {"row", "full"}
    assert all(row.bundles for row in traits_of(problem).rows)


def rearranged(t: Tensors) -> tuple[Tensor, ...]:
    """Stored with its last axes in turn: neighbours are none there."""
    return (t["x"].view(24, 4, 10) * 2).transpose(1, 2).contiguous(), t["x"].sum(0)


@pytest.mark.parametrize("call", [rearranged, shifted])
def test_what_would_not_lie_side_by_side_stays_apart(call: Call) -> None:
    tensors = of(x=(24, 40))
    problem = problem_of(call, tensors, varying=call is shifted)
    assert len(program_of(problem, True).steps) > 1
    check(call, generate(problem, VECTORS[0]).kernel.source, tensors, "checked")


def test_the_tensor_is_read_once() -> None:
    call, tensors = CALLS["activated"]
    source = generate(problem_of(call, tensors), VECTORS[1]).kernel.source
    counts = check(call, source, tensors, "checked").report.counts
    assert counts is not None
    assert counts.load_bytes < 1.5 * tensors["x"].nbytes
