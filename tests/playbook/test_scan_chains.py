"""Running totals along the same rows, side by side or of one another: one kernel, where what is needed of
the first is what a thread has at hand."""

import pytest
import torch
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import H100, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import settled

Tensors = dict[str, Tensor]


def decayed(t: Tensors) -> Tensor:
    products = torch.cumprod(t["x"] / 99 + 1, 1)
    return torch.cumsum(t["y"] / products, 1) * products


def told_twice(t: Tensors) -> tuple[Tensor, Tensor]:
    first = torch.cumsum(t["x"], 1)
    return first, torch.cumsum(first * t["y"], 1)


def exclusive(t: Tensors) -> Tensor:
    first = torch.cumsum(t["x"], 1)
    second = torch.cumsum((first - t["x"]) * t["y"], 1)
    return second - (first - t["x"]) * t["y"]


def backwards(t: Tensors) -> Tensor:
    first = torch.cumsum(t["x"].flip(1), 1).flip(1)
    return torch.cumsum(first.flip(1), 1).flip(1) * first


def whole_numbers(t: Tensors) -> Tensor:
    return torch.cumsum(torch.cumsum(t["x"] > 0, 1), 1)


def largest_sum(t: Tensors) -> Tensor:
    return torch.cummax(torch.cumsum(t["x"], 1), 1).values


def three(t: Tensors) -> Tensor:
    return torch.cumsum(torch.cumsum(torch.cumsum(t["x"], 1), 1), 1)


def means_so_far(t: Tensors) -> tuple[Tensor, Tensor]:
    """Mean and variance of all that came before, as a cumulative layer norm has them."""
    count = torch.arange(1, t["x"].shape[1] + 1, dtype=torch.float32)
    mean = torch.cumsum(t["x"], 1) / count
    return mean, torch.cumsum(t["x"].square(), 1) / count - mean.square()


def weighted_so_far(t: Tensors) -> Tensor:
    weights = t["y"].exp()
    return torch.cumsum(weights * t["x"], 1) / torch.cumsum(weights, 1)


def apart_at_the_end(t: Tensors) -> Tensor:
    """Distance of two distributions: what both come to, and its mean square."""
    ours = torch.cumsum(torch.softmax(t["x"], 1), 1)
    return (ours - torch.cumsum(t["y"], 1)).square().mean(1).sqrt()


def overlap(t: Tensors) -> Tensor:
    """As the loss of Lovasz weighs errors: three totals, one of them of what is made."""
    wanted = (t["y"] > 0).float()
    both = wanted.sum(1, keepdim=True) - torch.cumsum(wanted, 1)
    either = wanted.sum(1, keepdim=True) + torch.cumsum(1 - wanted, 1)
    return (torch.cumsum(t["x"], 1) * (1 - both / (either + 1))).sum(1)


def at_risk(t: Tensors) -> Tensor:
    """Of all that come later: a partial likelihood, whose rows are those of one event each."""
    later = torch.logcumsumexp(t["x"].flip(1), 1)
    return ((t["x"].flip(1) - later) * t["y"].flip(1)).sum(1)


def across(t: Tensors) -> Tensor:
    return torch.cumsum(torch.cumsum(t["x"], 1), 0)


def shifted(t: Tensors) -> Tensor:
    first = torch.cumsum(t["x"], 1)
    return torch.cumsum(first.roll(1, 1), 1)


def place(t: Tensors) -> Tensor:
    return torch.cummax(torch.cumsum(t["x"], 1), 1).indices


CHAINS: tuple[Call, ...] = (
    decayed, told_twice, exclusive, backwards, whole_numbers, largest_sum, three, means_so_far,
    weighted_so_far, apart_at_the_end, overlap, at_risk,
)  # fmt: skip
REDUCED: tuple[Call, ...] = (apart_at_the_end, overlap, at_risk)
"""Where a row comes to one number: in the kernel of its totals, or in one of its own."""
APART: tuple[Call, ...] = (across, shifted, place)
VECTORS: dict[str, Vector] = {
    "scalars": (("block_size", "64"),),
    "vectors": (("block_size", "64"), ("vector_width", "4")),
    "lanes": (("block_size", "64"), ("scan_lanes", "8"), ("vector_width", "2")),
    "a_block_sums": (("block_size", "64"), ("row_sums", "block"), ("vector_width", "4")),
    "a_warp_sums": (("block_size", "64"), ("row_sums", "warp")),
}


def tensors(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Tensors:
    torch.manual_seed(columns)
    return {name: (torch.randn(rows, columns) / 8).to(dtype) for name in ("x", "y")}


def launches(source: str) -> int:
    return source.partition("*/")[0].count("launch(")


def taken(call: Call, given: Tensors) -> Tensors:
    """What the call looks at: a problem has no argument that nobody reads."""
    both = (decayed, told_twice, exclusive, weighted_so_far, apart_at_the_end, overlap, at_risk)
    return given if call in both else {"x": given["x"]}


@pytest.mark.many(9)
@pytest.mark.parametrize(("call", "vector"), crossed(CHAINS, VECTORS))
def test_one_kernel_for_both(call: Call, vector: str) -> None:
    source = generate(problem_of(call, taken(call, tensors(3, 300))), VECTORS[vector]).kernel.source
    apart = call in REDUCED and "row_sums" not in dict(VECTORS[vector])
    assert launches(source) == 1 + apart
    for rows, columns in ((3, 300), (2, 1), (5, 67), (1, 1026), (4, 64)):
        check(call, source, taken(call, tensors(rows, columns)), "checked")


@pytest.mark.many(3)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_of_other_types(dtype: torch.dtype) -> None:
    given = tensors(3, 130, dtype)
    check(decayed, generate(problem_of(decayed, given), VECTORS["vectors"]).kernel.source, given, "checked")


@pytest.mark.many(2)
@pytest.mark.parametrize("call", APART)
def test_apart_where_more_is_needed_than_the_total_at_hand(call: Call) -> None:
    given = taken(call, tensors(5, 130))
    source = generate(problem_of(call, given), VECTORS["vectors"]).kernel.source
    assert launches(source) > 1
    check(call, source, given, "checked")


def test_tiles_of_long_rows_have_one_scan_each() -> None:
    problem = problem_of(decayed, {name: torch.empty(1, 2**20) for name in ("x", "y")}, varying=False)
    back: Vector = (("look_back", "on"), ("vector_width", "4"))
    assert generate(problem, back).kernel.source.count("look_back<") == 2
    assert generate(problem, ()).kernel.source.count("block_scan<") == 2


def test_the_model_counts_one_launch_and_no_totals_in_memory() -> None:
    problem = problem_of(decayed, {name: torch.empty(1024, 64) for name in ("x", "y")}, varying=False)
    found = estimate(problem, settled(problem, (("block_size", "64"),)), H100, {})
    assert found.launches == 1
    assert found.dram_bytes == 3 * 4 * 1024 * 64
