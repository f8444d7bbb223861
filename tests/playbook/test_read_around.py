"""Sweeps of a solver: each reads neighbours of what the one before has made, which is written as it grows."""

from functools import partial

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]


def relaxed(t: Tensors, sweeps: int) -> Tensor:
    """On a torus: five elements a place, 13 after two sweeps, 25 after three."""
    x = t["x"]
    for _ in range(sweeps):
        x = 0.25 * (x.roll(1, -1) + x.roll(-1, -1) + x.roll(1, -2) + x.roll(-1, -2)) - t["b"]
    return x


def between_walls(t: Tensors, sweeps: int) -> Tensor:
    """Walls copy what is beside them, one after the other: corners depend on the order."""
    x = t["x"]
    for _ in range(sweeps):
        before, x = x, x.clone()
        inner = before[:, 1:-1, 2:] + before[:, 1:-1, :-2] + before[:, 2:, 1:-1] + before[:, :-2, 1:-1]
        x[:, 1:-1, 1:-1] = 0.25 * inner - t["b"][:, 1:-1, 1:-1]
        x[:, :, -1] = x[:, :, -2]
        x[:, :, 0] = x[:, :, 1]
        x[:, 0, :] = x[:, 1, :]
        x[:, -1, :] = 0
    return x


def streamed(t: Tensors) -> Tensor:
    """Parts of one value, each moved by its own: no place is in more than one of them."""
    x = t["x"]
    mean = x.unflatten(-1, (4, -1)).unbind(-2)
    mixed = torch.stack([part * 2.0 + sum(mean) for part in mean], -1)
    return torch.cat([mixed[..., at].roll(at, -1) for at in range(4)], -1)


def flipped(t: Tensors) -> Tensor:
    """Spins of a byte each, two colours after each other: each looks at its neighbours and at chance."""
    spins = t["spins"]
    for colour in range(2):
        around = spins.roll(1, -1) + spins.roll(-1, -1) + spins.roll(1, -2) + spins.roll(-1, -2)
        chosen = t["chance"] < torch.exp(-0.4 * spins * around)
        spins = torch.where(chosen & (t["black"] != colour), -spins, spins)
    return spins


def test_a_lattice_of_bytes_is_written_sooner_than_one_of_floats() -> None:
    tensors = {
        "spins": (torch.randint(0, 2, (2, 6, 8)) * 2 - 1).to(torch.int8),
        "chance": torch.rand(2, 6, 8),
        "black": torch.rand(6, 8) < 0.5,
    }
    source = generate(problem_of(flipped, tensors), (("fusion", "all"),)).kernel.source
    assert source.count("__global__") == 2
    check(flipped, source, tensors)
    tensors["spins"] = tensors["spins"].float()
    assert generate(problem_of(flipped, tensors), (("fusion", "all"),)).kernel.source.count("__global__") == 1


CALLS: dict[str, tuple[Call, int]] = {
    "two sweeps": (partial(relaxed, sweeps=2), 1),
    "five sweeps of small planes, which wait on the chip": (partial(relaxed, sweeps=5), 1),
    "a sweep between walls": (partial(between_walls, sweeps=1), 1),
    "four sweeps between walls": (partial(between_walls, sweeps=4), 2),
    "parts that move": (streamed, 1),
}


@pytest.mark.many(7)
@pytest.mark.parametrize("name", CALLS)
def test_what_many_places_read_is_written_once(name: str) -> None:
    call, kernels = CALLS[name]
    tensors = {"x": torch.randn(2, 6, 8), "b": torch.randn(2, 6, 8)}
    tensors = tensors if call is not streamed else {"x": tensors["x"]}
    for width in ("1", "4"):
        vector = (("fusion", "all"), ("vector_width", width))
        source = generate(problem_of(call, tensors), vector).kernel.source
        assert source.count("__global__") == kernels
        check(call, source, tensors)
