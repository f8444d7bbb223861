"""Generated kernels are read: no device function stands in one that nothing calls."""

import re

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import Vector
from workbench.playbook.generate import generate

TEAMS: dict[str, Vector] = {
    "block": (("block_size", "64"),),
    "tree": (("block_size", "64"), ("block_reduction", "tree")),
    "warp": (("threads_per_row", "warp"),),
    "thread": (("threads_per_row", "thread"),),
}
GENERAL = "T warp_reduce(T value)"


def softmax(t: dict[str, Tensor]) -> Tensor:
    return t["x"].softmax(1)


def softmax_and_sum(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    return t["x"].softmax(1), t["x"].sum(1)


def divergence(t: dict[str, Tensor]) -> Tensor:
    return F.kl_div(t["x"].log_softmax(1), t["x"].flip(0).softmax(1), reduction="none").sum(1)


def mean_of_weighted(t: dict[str, Tensor]) -> Tensor:
    return (t["x"].softmax(1) * t["x"].flip(0)).sum(1)


def layer_norm(t: dict[str, Tensor]) -> Tensor:
    return F.layer_norm(t["x"], (t["x"].shape[1],))


def places(t: dict[str, Tensor]) -> Tensor:
    return t["x"].argmax(1)


@pytest.mark.many(23)
@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize(
    ("call", "steps"),
    [
        (softmax, False),
        (softmax_and_sum, True),
        (divergence, False),
        (mean_of_weighted, False),
        (layer_norm, True),
        (places, True),
    ],
)
def test_every_device_function_is_called(call: Call, steps: bool, team: str) -> None:
    x = torch.randn(5, 100)
    vector = (("single_pass", "on"), ("vector_width", "4"), *TEAMS[team])
    source = generate(problem_of(call, {"x": x}), vector).kernel.source
    defined = re.findall(r"__device__ (?:inline )?[\w<>]+(?:<[^>]*>)? (\w+)\(", source)
    for name in set(defined):
        assert len(re.findall(rf"\b{name}[(<]", source)) > defined.count(name), name
    assert (GENERAL in source) is (steps and team in ("block", "warp"))
    check(call, source, {"x": x}, "checked")
