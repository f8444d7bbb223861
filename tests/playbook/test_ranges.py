"""What is known of every place of a view, and of the sign of an index, whatever the sizes."""

from __future__ import annotations

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.ir.ranges import all_below, is_natural
from workbench.playbook.ir.sizes import ONE, ZERO, Sizes, number
from workbench.playbook.ir.views import Axis, View

SIZES = Sizes(("H", "W"))
H, W = SIZES.read("H"), SIZES.read("W")


@pytest.mark.parametrize(
    ("view", "bound", "told"),
    [
        (View((Axis(W, ONE),)), W, True),
        (View((Axis(W, ONE),)), W + -ONE, None),
        (View((Axis(W, ONE),)), W + H, True),
        (View((Axis(W, ONE),)), H, None),
        (View((Axis(W, ONE),), W), W, False),
        (View((Axis(W, ONE),), W + H), W, False),
        (View((Axis(W, ONE),), H), W, None),
        (View((Axis(W, -ONE),), W + -ONE), W, None),
        (View((Axis(number(4), number(3)),), ONE), number(11), True),
        (View((Axis(number(4), number(3)),), ONE), number(10), None),
        (View((Axis(H, ZERO), Axis(W, ONE))), W, True),
    ],
)
def test_all_places_lie_below_a_bound_or_none_does(view: View, bound: object, told: bool | None) -> None:
    assert all_below(view, bound) is told  # type: ignore[arg-type]


def test_a_difference_of_sizes_may_be_negative() -> None:
    """Also where it is not at any of the sizes that sizes are told apart by."""
    assert is_natural(H * W + H) and is_natural(ZERO)
    assert not any(is_natural(size) for size in (W + -H, H + -W, W + -ONE, number(-1)))


def clipped(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return t["x"][t["at"].clamp(0, t["x"].shape[0] - 1)]


def counted(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return t["x"][t["at"]]


def shifted(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return t["x"][(torch.arange(5) - 3).clamp(max=2)]


def hashed(t: dict[str, torch.Tensor]) -> torch.Tensor:
    """A remainder has the sign of what divides, as Python's has."""
    return t["x"][(t["at"] * 2654435761 + 97) % t["x"].shape[0]]


def masked(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return t["x"][t["at"] & 3]


def of_the_dividend(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return t["x"][torch.fmod(t["at"], t["x"].shape[0])]


def from_the_end(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return t["x"][t["at"] % -4]


@pytest.mark.many(3)
@pytest.mark.parametrize(
    ("call", "asks"),
    [
        (clipped, False),
        (counted, True),
        (shifted, True),
        (hashed, False),
        (masked, False),
        (of_the_dividend, True),
        (from_the_end, True),
    ],
)
def test_only_an_index_that_may_be_negative_is_counted_from_the_end(call: Call, asks: bool) -> None:
    tensors = {"x": torch.randn(6, 8), "at": torch.tensor([-3, 0, 5, -6])}
    if call is clipped:
        tensors["at"] = torch.tensor([-3, 0, 5, 60])
    source = generate(problem_of(call, tensors, "picked"), (("fusion", "all"),)).kernel.source
    kernel = source[source.index("__global__") :]
    assert (" < 0 ?" in " ".join(kernel.split())) is asks
    check(call, source, tensors, "checked")
