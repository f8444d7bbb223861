"""Errors that the ends of an operand's error do not show."""

import pytest
import torch

from workbench.numerics.pointwise import pointwise
from workbench.numerics.tracked import Tracked

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
