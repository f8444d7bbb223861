"""A division by a value a row becomes a product where the reciprocal cannot overflow, and only there."""

import math

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, run
from workbench.model import Vector
from workbench.playbook.generate import generate

REGISTERS = (("row_cache", "registers"), ("vector_width", "4"))


@pytest.mark.many(3)
@pytest.mark.parametrize(
    ("call", "product"),
    [
        (lambda t: torch.softmax(t["x"], 1), True),
        (lambda t: t["x"] / torch.sqrt(t["x"].pow(2).mean(1, keepdim=True) + 1e-5), True),
        (lambda t: torch.nn.functional.normalize(t["x"], dim=1), True),
        (lambda t: t["x"] / t["x"].abs().sum(1, keepdim=True), False),
        (lambda t: t["x"] / (t["x"].sum(1, keepdim=True) + 1.0), False),
        (lambda t: t["x"] / (t["x"].exp().sum(1, keepdim=True) + 1e-38), False),
    ],
)
def test_only_where_the_reciprocal_cannot_overflow(call: Call, product: bool) -> None:
    x = torch.rand(40, 36) + 0.1  # no sum is a difference of large numbers: its rounding is not the test's
    source = generate(problem_of(call, {"x": x}), REGISTERS).kernel.source
    assert ("* inverse;" in source) is product
    check(call, source, {"x": x})


def test_a_row_too_small_for_a_reciprocal_is_still_divided() -> None:
    x = torch.full((3, 8), 2.0**-130)
    source = generate(problem_of(lambda t: t["x"] / t["x"].sum(1, keepdim=True), {"x": x}), REGISTERS)
    check(lambda t: t["x"] / t["x"].sum(1, keepdim=True), source.kernel.source, {"x": x})


def test_the_technique_divides_by_a_root_with_one_instruction() -> None:
    def scaled(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return t["x"] / torch.sqrt(t["v"] + 1e-5) + 1.0 / torch.sqrt(t["v"] + 2.0)

    tensors = {"x": torch.randn(5, 12), "v": torch.rand(12)}
    problem = problem_of(scaled, tensors)
    plain = generate(problem, (("vector_width", "4"),)).kernel.source
    source = generate(problem, (("reciprocal", "on"), ("vector_width", "4"))).kernel.source
    assert "sqrtf" in plain and "rsqrtf" not in plain
    assert source.count("rsqrtf(") == 2 and "1.0f *" not in source and " / " not in source.split("void op")[1]
    check(scaled, source, tensors)


def gated(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.silu(t["x"]) / t["y"]


@pytest.mark.many(3)
@pytest.mark.parametrize("layout", [(("vector_width", "4"),), (("index_width", "32"),), REGISTERS])
def test_an_element_is_divided_without_a_jump(layout: Vector) -> None:
    def beside_a_sum(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return gated(t) + t["x"].sum(1, keepdim=True)

    over = torch.tensor([1.0, 0.0, 1e-30, 1e-40, 1e38, 3e38, math.inf, 2.0, math.inf, 1.0])
    under = torch.tensor([0.0, -0.0, 1e-40, 1e-45, 3e38, -1e38, 3e38, math.inf, -math.inf, math.nan])
    tensors = {"x": over.repeat(4, 1), "y": under.repeat(4, 1)}
    call = beside_a_sum if layout is REGISTERS else gated
    source = generate(problem_of(call, tensors), layout).kernel.source
    assert source.count("quotient(") == 3  # itself and two calls
    check(call, source, tensors)


def test_what_is_rounded_or_compared_afterwards_is_divided_exactly() -> None:
    def counted(t: dict[str, torch.Tensor]) -> torch.Tensor:
        whole = torch.floor(t["x"] / t["y"])
        return torch.where(t["y"] / t["x"] > 0.5, whole, t["x"]) / t["y"] + (t["x"] / 3.0).to(torch.int32)

    tensors = {"x": torch.arange(1.0, 25.0).reshape(4, 6), "y": torch.full((4, 6), 3.0)}
    source = generate(problem_of(counted, tensors), (("vector_width", "2"),)).kernel.source
    assert source.count("quotient(") == 2 and source.split("void op")[1].count(" / ") == 3
    check(counted, source, tensors)


@pytest.mark.parametrize("layout", [(("vector_width", "4"),), (("index_width", "32"),)])
def test_over_a_number_is_what_an_exact_division_is(layout: Vector) -> None:
    def ninth(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return t["x"] / 9.0 + t["y"] / -0.7

    x = torch.cat(
        [torch.randn(1015), torch.tensor([0.0, math.inf, -math.inf, math.nan, 3e38, 1e-30, 7.0, 1.0, 9.0])]
    )
    tensors = {"x": x.reshape(32, 32), "y": torch.zeros(32, 32)}
    source = generate(problem_of(ninth, tensors), layout).kernel.source
    assert source.count("over(") == 3
    (got,) = run(source, tensors).outputs
    torch.testing.assert_close(got, tensors["x"] / 9.0, rtol=0.0, atol=0.0, equal_nan=True)


def test_what_is_reduced_and_what_it_is_held_against_are_divided_alike() -> None:
    def warmed(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.softmax(t["x"] / t["y"], 1)

    tensors = {"x": torch.randn(4, 36), "y": torch.rand(4, 36) + 0.5}
    for layout in (REGISTERS, (("row_cache", "reread"), ("vector_width", "1"))):
        source = generate(problem_of(warmed, tensors), layout).kernel.source
        assert "quotient(" not in source and " / y" in source
        check(warmed, source, tensors)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: (t["x"] - 1) / t["x"].shape[0],
        lambda t: torch.remainder(t["x"], t["x"].shape[0]),
        lambda t: t["x"] // t["x"].shape[0] + torch.softmax(t["x"] / t["x"].shape[0], -1),
        lambda t: t["x"].int() % t["x"].shape[0] + t["x"].long() // t["x"].shape[0],
    ],
)
def test_a_size_divides_as_a_number_does(call: Call) -> None:
    """Functions that are no templates take it too; a size is an integer, which they turn into a float."""
    tensors = {"x": 20 * torch.randn(6, 8)}
    source = generate(problem_of(call, tensors), (("fusion", "all"),)).kernel.source
    assert " / ROWS" not in source
    check(call, source, tensors)


def test_a_mean_inside_another_reduction_stays_one() -> None:
    """It is divided once a column; two reductions in one are known by it, and pieces rely on that."""
    tensors = {"x": torch.randn(64, 8)}
    for reciprocal in ("off", "on"):
        vector = (("fusion", "all"), ("reciprocal", reciprocal), ("single_pass", "on"))
        source = generate(problem_of(lambda t: t["x"].var(0), tensors), vector).kernel.source
        assert "Moments" in source and "over(" not in source
