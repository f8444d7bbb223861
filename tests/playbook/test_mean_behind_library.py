"""A reduction right behind a convolution or a product: bias, activation and mean are one kernel."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from workbench.model import Vector
from workbench.playbook.generate import generate

WIDE: Vector = (("fusion", "all"), ("vector_width", "4"))
Tensors = dict[str, torch.Tensor]


def convolved(t: Tensors) -> torch.Tensor:
    return F.conv2d(t["x"], t["w"], t["b"])


IMAGES: Tensors = {"x": torch.randn(2, 3, 9, 11), "w": torch.randn(5, 3, 3, 3), "b": torch.randn(5)}
LINES: Tensors = {"x": torch.randn(6, 7), "w": torch.randn(10, 7), "b": torch.randn(10)}
CALLS: dict[str, tuple[Call, Tensors]] = {
    "mean": (lambda t: convolved(t).mean((2, 3)), IMAGES),
    "bias_and_mean": (lambda t: (convolved(t) + t["z"]).mean((2, 3)), IMAGES | {"z": torch.randn(5, 1, 1)}),
    "pooled_globally": (lambda t: F.adaptive_avg_pool2d(torch.relu(convolved(t)), 1).flatten(1), IMAGES),
    "over_channels": (lambda t: F.gelu(convolved(t)).mean(1), IMAGES),
    "over_the_batch": (lambda t: F.gelu(F.linear(t["x"], t["w"], t["b"])).mean(0), LINES),
}


@pytest.mark.many(5)
@pytest.mark.parametrize("name", CALLS)
def test_one_kernel_behind_the_library_call(name: str) -> None:
    call, tensors = CALLS[name]
    source = generate(problem_of(call, tensors), WIDE).kernel.source
    plan = plan_of(source, tensors)
    assert [step.kind for step in plan.steps if step.kind in ("library", "launch")] == ["library", "launch"]
    told = source[source.index("library(") : source.index("launch(")]
    assert "b," not in told.replace("None", ""), "the bias is added by the kernel"
    check(call, source, tensors)


@pytest.mark.parametrize("name", ["mean", "pooled_globally", "over_channels"])
def test_convolutions_of_channels_last_images_are_read_as_they_lie(name: str) -> None:
    """Their results are such images too."""
    call, tensors = CALLS[name]
    images = tensors | {"x": tensors["x"].to(memory_format=torch.channels_last)}
    source = generate(problem_of(call, images, varying=False), WIDE).kernel.source
    assert called(source, images) == ["aten.convolution"]
    check(call, source, images)


@pytest.mark.parametrize("expected_last", [True, False])
def test_another_layout_than_expected_is_brought_into_it(
    expected_last: bool,
) -> None:
    call, tensors = CALLS["pooled_globally"]
    images = tensors | {"x": tensors["x"].to(memory_format=torch.channels_last)}
    expected, given = (images, tensors) if expected_last else (tensors, images)
    problem = problem_of(call, expected, varying=False)
    strides = {"strides": None if given is tensors else given["x"].stride()}
    spec = tuple(s.model_copy(update=strides) if s.name == "x" else s for s in problem.tensors)
    source = generate(problem.model_copy(update={"tensors": spec}), WIDE).kernel.source
    turned = ["aten.permute"] if expected_last else []
    assert called(source, given) == ["aten.convolution", *turned, "aten.contiguous"]
    check(call, source, given)


def called(source: str, tensors: Tensors) -> list[str]:
    return [step.op for step in plan_of(source, tensors).steps if step.kind == "library"]
