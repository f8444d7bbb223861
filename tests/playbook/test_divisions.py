"""A division by a value a row becomes a product where the reciprocal cannot overflow, and only there."""

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate

REGISTERS = (("row_cache", "registers"), ("vector_width", "4"))


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
