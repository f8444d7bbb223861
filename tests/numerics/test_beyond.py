"""Errors that the ends of an operand's error do not show."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from tests.problem.test_intake import opened
from workbench.numerics.inputs import draw
from workbench.numerics.pointwise import pointwise
from workbench.numerics.tracked import Tracked
from workbench.problem.reference import Reference
from workbench.referee.expectation import held_against

aten = torch.ops.aten


@pytest.mark.parametrize(("name", "op"), [("sin", aten.sin.default), ("cos", aten.cos.default)])
def test_a_wave_reaches_what_lies_between_the_ends_of_its_angle(name: str, op: torch._ops.OpOverload) -> None:
    """Three points on a line span any plane: the sine of its angle may be 1, and is 0 at both ends."""
    torch.manual_seed(0)
    value = torch.cat([4 * torch.randn(4000), torch.pi / 2 * torch.arange(-8, 9)]).double()
    error = torch.cat([torch.rand(4000) ** 3 * 5, torch.full((17,), torch.pi)]).double()
    made = pointwise(name, op, [Tracked(value, error, torch.zeros_like(value), "f64")], {}, "f64")
    between = value + error * torch.linspace(-1, 1, 401, dtype=torch.float64)[:, None]
    reached = (op(between) - op(value)).abs().amax(0)
    assert bool((reached <= made.error + 1e-12).all())
    assert bool((made.error <= 2 * reached + 0.01 * error).all()), "and hardly more than that"


class ElsewhereRounded(Reference):
    """In float64 too, what rounding leaves of a difference of equals has a sign: here it is always plus."""

    def oracle(self, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return tuple(torch.ones_like(result) for result in super().oracle(tensors))


def test_what_is_allowed_lies_around_the_value_whose_error_it_is() -> None:
    source = "def f(x, y):\n    return torch.sign(3.1 * x - 3.1 * y)\n"
    problem = opened(f"{source}inputs = [torch.randn(300), torch.randn(300)]\n")
    tensors = draw(problem, problem.cases[0], "normal", 0)
    tensors["y"] = tensors["x"]
    sizes = problem.cases[0].size_map
    (bound,) = held_against(problem, ElsewhereRounded(problem), sizes, tensors).bounds
    assert bound.step is not None and bool((bound.expected == 1).all())
    assert bool(((bound.step.down - 2).abs() < 0.01).all() and (bound.step.up < 0.01).all())
