"""Values of few elements that very many are made of: a kernel of their own, where they are much work."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import H100
from workbench.playbook.estimates.estimate import predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import moves, seed_vectors
from workbench.playbook.techniques.traits import program_of, traits_of


def rotated(t: dict[str, Tensor]) -> Tensor:
    """A rotary embedding of all heads, its angles computed from places."""
    x = t["x"]
    half = x.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = torch.arange(x.shape[-2], dtype=torch.float32)[:, None] * rates
    one, other = x[..., :half], x[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((one * cos - other * sin, one * sin + other * cos), -1)


def decayed(t: dict[str, Tensor]) -> Tensor:
    """A state's decay by channel: what is learned is a logarithm."""
    return t["x"] * torch.tanh(torch.expm1(t["w"])).view(1, -1, 1, 1)  # one for a vector of neighbours


def scaled(t: dict[str, Tensor]) -> Tensor:
    return t["x"] * (t["w"] + 1).view(1, -1, 1, 1)


def shared(t: dict[str, Tensor]) -> Tensor:
    """A statistic stays with its row."""
    return t["x"] - torch.log1p(t["x"].square().mean(-1, keepdim=True))


def of_weights(t: dict[str, Tensor]) -> Tensor:
    return F.softplus(t["w"])


LARGE, SMALL = (32, 16, 1024, 64), (2, 16, 5, 6)
CALLS: dict[str, tuple[Call, bool]] = {
    "rotated": (rotated, True),
    "decayed": (decayed, False),
    "scaled": (scaled, False),
    "shared": (shared, False),
    "of_weights": (of_weights, False),
}


def tensors_of(name: str, shape: tuple[int, ...]) -> dict[str, Tensor]:
    torch.manual_seed(2)
    x = torch.empty(shape) if shape == LARGE else torch.randn(shape)
    tensors = {"x": x, "w": torch.randn(shape[1])}
    wanted = {"rotated": "x", "shared": "x", "of_weights": "w"}.get(name, "xw")
    return {key: tensors[key] for key in wanted}


@pytest.mark.parametrize("name", CALLS)
def test_made_once_where_very_many_want_what_is_much_work(name: str) -> None:
    call, once = CALLS[name]
    problem = problem_of(call, tensors_of(name, LARGE), "grouped")
    assert ("made_once" in traits_of(problem).rewrites) == once
    assert "made_once" not in traits_of(problem_of(call, tensors_of(name, SMALL), "grouped")).rewrites
    if not once:
        return
    made, again = ((("made_once", value), ("vector_width", "4")) for value in ("on", "off"))
    assert len(program_of(problem, True).steps) > len(
        program_of(problem, True, frozenset(["made_once"])).steps
    )
    tensors = tensors_of(name, SMALL)
    for vector in (made, again):
        check(call, generate(problem, vector).kernel.source, tensors, "checked")
    assert predicted_factor(problem, again, made, H100) > 1.5


def test_a_search_starts_with_it_and_tries_without() -> None:
    problem = problem_of(rotated, tensors_of("rotated", LARGE), "grouped")
    first = [card.vector for card in seed_vectors(problem, H100, 8)]
    made = next(vector for vector in first if dict(vector).get("made_once") == "on")
    assert {card.technique for card in moves(problem, made, None, H100)} >= {"made_once"}


def costs(t: dict[str, Tensor]) -> Tensor:
    """Of ways to steer, some steps ahead; their weights are a softmax over all of them."""
    place = turn = torch.zeros_like(t["x"][:, 0])
    for step in t["x"].unbind(1):
        place, turn = place + turn.cos(), turn + step.tan()
    return (place * place).neg().softmax(0)


def cheap(t: dict[str, Tensor]) -> Tensor:
    return (t["x"] * 2).sum(1).softmax(0)


@pytest.mark.parametrize(
    ("call", "rows", "once"), [(costs, 65536, True), (costs, 512, False), (cheap, 65536, False)]
)
def test_what_a_long_row_is_gone_along_twice_for_is_made_once(call: Call, rows: int, once: bool) -> None:
    """A row that blocks share is read again in each of its passes."""
    problem = problem_of(call, {"x": torch.empty(rows, 4)}, "rollout")
    assert ("made_once" in traits_of(problem).rewrites) == once
    if not once:
        return
    vector = (("grid_split", "on"), ("made_once", "on"), ("single_pass", "on"))
    made, again = (generate(problem, vector + extra).kernel.source for extra in ((), (("made_once", "off"),)))
    assert made.count("tanf(") < again.count("tanf(")
    check(call, made, {"x": torch.randn(9000, 4)}, "checked")
