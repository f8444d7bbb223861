"""What is stacked and computed with: piece by piece where several stacks meet, and the same numbers."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import applying

Tensors = dict[str, Tensor]
VECTOR = (("block_size", "128"), ("vector_width", "4"))


def flux(w: Tensor) -> Tensor:
    density, moment, energy = w[:, 0], w[:, 1], w[:, 2]
    speed = moment / density
    pressure = 0.4 * (energy - 0.5 * moment * speed).clamp(min=1e-3)
    return torch.stack([moment, moment * speed + pressure, (energy + pressure) * speed], 1)


def neighbours(t: Tensors) -> Tensor:
    """The flux on either side of each border, of which each cell has two."""
    u = t["x"]
    beside = torch.roll(u, -1, 2)
    between = 0.5 * (flux(u) + flux(beside)) - (beside - u)
    return u - 0.1 * (between - torch.roll(between, 1, 2))


def in_place(t: Tensors) -> Tensor:
    u = t["x"]
    one, other = flux(u), flux(u + 1)
    one[:, 1] += u[:, 0]
    return (one - other) * 2


def last_axis(t: Tensors) -> Tensor:
    a, b, c = t["x"].unbind(1)
    return torch.stack([a * b, b * c], -1) * torch.stack([a.exp(), c.exp()], -1)


def cut_out(t: Tensors) -> Tensor:
    """What is made of one piece alone, and of all of them."""
    both = flux(t["x"]) + flux(t["x"] + 2)
    return both[:, :, 1:] * both[:, 1:2, 1:]


def beside(t: Tensors) -> Tensor:
    """Seen in another shape, halves are no stack: pairs are neighbours of one half."""
    a, b, _ = t["x"].unbind(1)
    pairs = [
        torch.cat([one * 2, other + 1], 1).view(a.shape[0], a.shape[1], 2) for one, other in ((a, b), (b, a))
    ]
    return pairs[0] * pairs[1]


def octaves(t: Tensors) -> Tensor:
    """Sines and cosines of a few octaves, damped: halves of a row that are long to compute, and as long."""
    x = t["x"].transpose(1, 2)
    scales = 2.0 ** torch.arange(3, device=x.device)
    y = (x[..., None, :] * scales[:, None]).flatten(-2)
    v = (x.square()[..., None, :] * scales[:, None]).flatten(-2)
    return torch.exp(-0.5 * torch.cat([v, v], -1)) * torch.sin(torch.cat([y, y + 1.5], -1))


def turned(t: Tensors) -> Tensor:
    """Halves of a row the other way round, and angles that stand twice in it."""
    x = t["x"]
    half = x.shape[-1] // 2
    angles = x[..., :half] * 3
    turned_round = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * torch.cat([angles, angles], -1).cos() + turned_round


def one_alone(t: Tensors) -> Tensor:
    a, b, c = t["x"].unbind(1)
    return torch.stack([a * b, b * c], 1) * 2


def as_they_lie(t: Tensors) -> Tensor:
    a, b, c = t["x"].unbind(1)
    return torch.stack([a, b], 1) * torch.stack([b, c], 1)


@pytest.mark.many(5)
@pytest.mark.parametrize("call", [neighbours, in_place, last_axis, cut_out, octaves])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pieces_are_computed_with_and_stacked_last(call: Call, dtype: torch.dtype) -> None:
    tensors = {"x": (torch.rand(3, 3, 40) + 0.5).to(dtype)}
    problem = problem_of(call, tensors)
    assert "joined_last" in applying(problem)
    for use in ("on", "off"):
        check(call, generate(problem, (*VECTOR, ("joined_last", use))).kernel.source, tensors, "checked")


def test_what_neighbours_read_is_written_once_a_piece() -> None:
    source = generate(problem_of(neighbours, {"x": torch.rand(3, 3, 40) + 0.5}), VECTOR).kernel.source
    assert source.count("__global__") == 2
    assert source.count("_once = empty") == 3


@pytest.mark.parametrize("call", [one_alone, as_they_lie, beside, turned])
def test_one_stack_alone_and_pieces_that_lie_in_memory_stay_as_they_are(call: Call) -> None:
    assert "joined_last" not in applying(problem_of(call, {"x": torch.rand(3, 3, 40)}))
