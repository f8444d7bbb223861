"""Sums of weighted sums: one sum where the elements are computed over both, and the same numbers."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import applying

Tensors = dict[str, Tensor]


def share(t: Tensors) -> Tensor:
    return torch.softmax(t["x"].flatten(1), 1).view(t["x"].shape)


def column(t: Tensors) -> Tensor:
    return (share(t).sum(1) * torch.arange(t["x"].shape[2], dtype=t["x"].dtype)).sum(-1)


def kept(t: Tensors) -> Tensor:
    """Both sums keep their axis; places from -1 to 1, as they are when an image is sampled."""
    places = torch.linspace(-1, 1, t["x"].shape[1], dtype=t["x"].dtype)[:, None]
    return (places * share(t).sum(2, keepdim=True)).sum(1, keepdim=True)


def largest_apart(t: Tensors) -> Tensor:
    """A maximum over both axes that is no softmax's."""
    apart = t["x"].amax((1, 2), keepdim=True) - t["x"]
    return (apart.sum(1) * torch.arange(t["x"].shape[2])).sum(1)


def both(t: Tensors) -> Tensor:
    across, down = (torch.arange(n, dtype=t["x"].dtype) for n in reversed(t["x"].shape[1:]))
    return torch.stack([(share(t).sum(1) * across).sum(1), (share(t).sum(2) * down).sum(1)], 1)


@pytest.mark.many(11)
@pytest.mark.parametrize("call", [column, kept, largest_apart, both])
@pytest.mark.parametrize("team", ["warp", "block"])
def test_one_kernel_adds_up_what_a_row_is_needed_for(call: Call, team: str) -> None:
    tensors = {"x": torch.randn(3, 7, 12)}
    problem = problem_of(call, tensors)
    assert "nested_sums" in applying(problem)
    vector = (("threads_per_row", team), ("vector_width", "4"))
    source = generate(problem, vector).kernel.source
    assert source.count("__global__") == 1
    check(call, source, tensors, "checked")
    apart = generate(problem, (("nested_sums", "off"), *vector)).kernel.source
    assert apart.count("__global__") > 1
    check(call, apart, tensors, "checked")


def test_infinities_and_nan_stay_where_they_are() -> None:
    tensors = {"x": torch.randn(5, 6, 8)}
    tensors["x"][0, 1, 2] = float("inf")
    tensors["x"][1, 2, 3] = float("nan")
    tensors["x"][2, 3, 4] = float("-inf")
    tensors["x"][3, :, 4] = float("-inf")
    check(both, generate(problem_of(both, tensors), ()).kernel.source, tensors)


def by_input(t: Tensors) -> Tensor:
    """Weights that may be infinite."""
    return (share(t).sum(1) * t["w"]).sum(1)


def by_far(t: Tensors) -> Tensor:
    """Weights that are."""
    return (share(t).sum(1) * (torch.arange(t["x"].shape[2]) + float("inf"))).sum(1)


def by_rows(t: Tensors) -> Tensor:
    """The softmax goes over the inner sum's axis alone."""
    return (torch.softmax(t["x"], 1).sum(1) * torch.arange(t["x"].shape[2])).sum(1)


def shown(t: Tensors) -> tuple[Tensor, Tensor]:
    """The inner sums are wanted too."""
    inner = share(t).sum(1)
    return inner, (inner * torch.arange(t["x"].shape[2])).sum(1)


@pytest.mark.parametrize("call", [by_input, by_far, by_rows, shown])
def test_what_is_no_gain_or_not_finite_is_left_alone(call: Call) -> None:
    tensors = {"x": torch.randn(3, 6, 8), "w": torch.randn(8)}
    problem = problem_of(call, tensors)
    assert "nested_sums" not in applying(problem)


def test_values_of_the_same_rows_are_stored_where_a_stack_has_them() -> None:
    def call(t: Tensors) -> Tensor:
        return torch.cat([t["x"].amax(-1, keepdim=True), t["x"].mean(-1, keepdim=True)], -1)

    tensors = {"x": torch.randn(5, 37)}
    source = generate(problem_of(call, tensors), (("threads_per_row", "warp"),)).kernel.source
    assert source.count("__global__") == 1
    check(call, source, tensors, "checked")
