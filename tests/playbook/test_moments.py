"""Mean and variance in one pass over memory: a vector at a time, exact enough, and without a branch."""

import pytest
import torch
import torch.nn.functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of, run
from workbench.compile.service import load_cubin
from workbench.model import Vector
from workbench.playbook.generate import generate

ONE_PASS: Vector = (("block_size", "64"), ("single_pass", "on"), ("vector_width", "4"))
LAYOUTS = {
    "block": ONE_PASS,
    "warp": (*ONE_PASS, ("threads_per_row", "warp")),
    "one by one": (*ONE_PASS[:2], ("vector_width", "1")),
    "split": (*ONE_PASS, ("grid_split", "on")),
    "kept": (*ONE_PASS, ("grid_split", "on"), ("split_join", "grid")),
}


def layer_norm(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return F.layer_norm(t["x"], (t["x"].shape[1],))


def source_of(call: Call, x: torch.Tensor, vector: Vector) -> str:
    return generate(problem_of(call, {"x": x}, varying=False), vector).kernel.source


@pytest.mark.many(6)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("columns", [2052, 2053])
def test_far_from_zero_and_of_odd_length(layout: str, columns: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, columns) + 10.0
    source = source_of(layer_norm, x, LAYOUTS[layout])
    assert ("add_vector(" in source) is (layout != "one by one")
    check(layer_norm, source, {"x": x}, "checked")


@pytest.mark.many(5)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_row_of_large_equal_values_has_no_variance(layout: str) -> None:
    """Their squares would be infinite: what nothing was seen before is joined without squaring them."""
    x = torch.full((2, 2052), 1e20)
    source = source_of(layer_norm, x, LAYOUTS[layout])
    (out,) = run(source, {"x": x}).outputs
    assert torch.equal(out, torch.zeros_like(x))


def test_the_loads_of_further_steps_need_not_wait_for_a_division() -> None:
    """An exact division calls a function for extreme numbers, beyond which no load is moved up."""
    x = torch.empty(64, 262144)
    source = source_of(layer_norm, x, LAYOUTS["split"])
    launch = plan_of(source, {"x": x}).launches[0]
    image = load_cubin(source, launch.consts, [launch.kernel], "sm_90a")
    assert isinstance(image, tuple) and b"slowpath" not in image[0]


@pytest.mark.parametrize("split", ["off", "on"])
def test_a_mean_that_is_wanted_itself_goes_along_and_keeps_its_infinity(split: str) -> None:
    """Welford's mean of an infinite row is NaN; the row's sum is carried beside it, in the same pass."""

    def mean_and_std(t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        mean = t["x"].mean(1, keepdim=True)
        return mean.squeeze(1), (t["x"] - mean).square().mean(1).sqrt()

    tensors = {"x": torch.randn(3, 9000) + 30.0}
    tensors["x"][1, 17] = float("inf")
    vector = (("single_pass", "on"), ("vector_width", "4"), ("block_size", "64"), ("grid_split", split))
    source = generate(problem_of(mean_and_std, tensors), vector).kernel.source
    assert source.count("load<VEC>(x_row + col)") == (1 if split == "off" else 2)
    check(mean_and_std, source, tensors)
