"""Convolutions with one number everywhere: added up along each axis, and the same numbers."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import applying

Tensors = dict[str, Tensor]


def boxes(t: Tensors) -> Tensor:
    return F.conv2d(t["x"], torch.ones(1, 1, 3, 5, dtype=t["x"].dtype), padding=(1, 2)).square()


def mean_filter(t: Tensors) -> Tensor:
    """Of each channel, strided, without padding; the filter is computed."""
    channels = t["x"].shape[1]
    weight = torch.ones(1, 1, 3, 3, dtype=t["x"].dtype).expand(channels, 1, 3, 3) / 9
    return F.conv2d(t["x"], weight, stride=2, groups=channels)


def volumes(t: Tensors) -> Tensor:
    """Along one axis of three there is nothing to add."""
    weight = torch.full((1, 1, 1, 3, 2), 0.25, dtype=t["x"].dtype)
    return F.conv3d(t["x"][:, :, None], weight, padding=(0, 1, 0)).relu()


@pytest.mark.many(14)
@pytest.mark.parametrize("call", [boxes, mean_filter, volumes])
def test_boxes_are_added_up_along_one_axis_after_the_other(call: Call) -> None:
    tensors = {"x": torch.randn(2, 1 if call is not mean_filter else 3, 9, 11)}
    problem = problem_of(call, tensors)
    assert "box_sum" in applying(problem)
    vector = (("fusion", "all"), ("vector_width", "4"))
    source = generate(problem, vector).kernel.source
    assert "convolution" not in source
    check(call, source, tensors, "checked")
    apart = generate(problem, (("box_sum", "off"), *vector)).kernel.source
    assert apart != source
    check(call, apart, tensors, "checked")


def test_infinities_and_nan_stay_where_they_are() -> None:
    tensors = {"x": torch.randn(2, 1, 9, 11)}
    tensors["x"][0, 0, 2, 3], tensors["x"][1, 0, 4, 5] = torch.inf, torch.nan
    check(boxes, generate(problem_of(boxes, tensors), ()).kernel.source, tensors, "checked")


def given_weights(t: Tensors) -> Tensor:
    return F.conv2d(t["x"], t["w"], padding=1)


def other_numbers(t: Tensors) -> Tensor:
    return F.conv2d(t["x"], torch.arange(9.0).view(1, 1, 3, 3))


def all_channels(t: Tensors) -> Tensor:
    """Every result is of all channels."""
    return F.conv2d(t["x"].expand(-1, 3, -1, -1), torch.ones(2, 3, 3, 3))


def apart(t: Tensors) -> Tensor:
    return F.conv2d(t["x"], torch.ones(1, 1, 3, 3), dilation=2)


def far_beside(t: Tensors) -> Tensor:
    """More zeros beside the image than half a window, which no pool takes."""
    return F.conv2d(t["x"], torch.ones(1, 1, 3, 3), padding=2)


def narrow(t: Tensors) -> Tensor:
    """Sums along an axis would be rounded to 16 bits on their way."""
    return F.conv2d(t["x"].bfloat16(), torch.ones(1, 1, 3, 3, dtype=torch.bfloat16))


@pytest.mark.parametrize("call", [given_weights, other_numbers, all_channels, apart, far_beside, narrow])
def test_other_convolutions_are_left_alone(call: Call) -> None:
    tensors = {"x": torch.randn(2, 1, 9, 11), "w": torch.ones(1, 1, 3, 3)}
    if call is not given_weights:
        del tensors["w"]
    assert "box_sum" not in applying(problem_of(call, tensors))
