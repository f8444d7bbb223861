"""A reduction has a type of its own: a place is an integer, whatever it is a place in."""

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate

CALLS: dict[str, Call] = {
    "the_smaller_of_a_place_and_a_number": lambda t: torch.minimum(t["x"].argmin(1).float(), t["w"]),
    "a_place_between_numbers": lambda t: t["x"].argmax(1).float().clamp(1.5, 4.5) * t["w"],
    "a_place_and_a_maximum": lambda t: torch.maximum(t["x"].argmax(1).float(), t["x"].amax(1)),
}


@pytest.mark.many(2)
@pytest.mark.parametrize("name", CALLS)
def test_places_enter_arithmetic_as_floats(name: str) -> None:
    torch.manual_seed(1)
    tensors = {"x": torch.randn(6, 9), "w": 4 * torch.rand(6)}
    check(CALLS[name], generate(problem_of(CALLS[name], tensors, name), ()).kernel.source, tensors, "checked")
