"""Convolutions of few places and many channels: blocks that read a part of the channels each share a tile."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.convolving import have_chosen, ordinary, with_one
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of, run
from workbench.model import H100, Vector
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Convolution, LibraryCall
from workbench.playbook.kernels.patches_tiling import shares_of
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

Tensors = dict[str, Tensor]
EACH: Vector = (("convolution", "each"),)


def passed_on(t: Tensors) -> Tensor:
    """As in a dense block: a norm, and what is passed on beside."""
    made = F.conv2d(t["x"], t["w"], padding=1)
    return F.relu(F.batch_norm(made, t["mean"], t["var"])) + t["beside"]


CASES: dict[str, tuple[Call, Tensors]] = {
    "few channels": (ordinary(padding=1), of(x=(2, 96, 7, 9), w=(32, 96, 3, 3), b=(32,))()),
    "channels of no vector": (ordinary(), of(x=(2, 30, 9, 11), w=(33, 30, 3, 3), b=(33,))()),
    "many channels": (ordinary(), of(x=(2, 48, 8, 8), w=(136, 48, 3, 3), b=(136,))()),
    "in groups": (ordinary(groups=2, padding=1), of(x=(2, 96, 7, 9), w=(64, 48, 3, 3), b=(64,))()),
    "one tap": (ordinary(), of(x=(2, 192, 6, 10), w=(40, 192, 1, 1), b=(40,))()),
    "line": (ordinary(stride=2, padding=4), of(x=(3, 60, 75), w=(36, 60, 5), b=(36,))()),
    "volume": (ordinary(padding=1), of(x=(1, 12, 4, 5, 6), w=(32, 12, 3, 3, 3), b=(32,))()),
    "a norm behind many channels": (
        passed_on,
        of(x=(2, 48, 7, 9), w=(80, 48, 3, 3), mean=(80,), beside=(2, 80, 7, 9))()
        | {"var": torch.full((80,), 2.0)},
    ),
    "a norm behind": (
        passed_on,
        of(x=(2, 48, 7, 9), w=(32, 48, 3, 3), mean=(32,), beside=(2, 32, 7, 9))()
        | {"var": torch.full((32,), 2.0)},
    ),
}


TRIED = [(name, threads) for name in CASES for threads in (256, 128) if (name, threads) != ("one tap", 128)]
"""A tile of a small block would have no room for the patches of all terms of a piece, a channel each."""


def source_of(
    call: Call, tensors: Tensors, threads: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The kernel whose tiles are shared by so many blocks, whatever the model of time thinks of it."""

    def chosen(call: LibraryCall, ways: list[Convolution]) -> Convolution:
        wanted = ("patches", threads, blocks)
        return next(one for one in ways if (one.way, one.threads, one.blocks) == wanted)

    have_chosen(chosen, monkeypatch)
    problem = problem_of(call, tensors, varying=False)
    source = generate(problem, settled(problem, EACH)).kernel.source
    assert f"constexpr int BLOCKS = {blocks}," in source and "library(" not in source
    return source


@pytest.mark.many(10)
@pytest.mark.parametrize("blocks", [2, 3])
@pytest.mark.parametrize(("name", "threads"), TRIED)
def test_right(name: str, threads: int, blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    call, tensors = CASES[name]
    tensors = {**tensors, "w": 0.1 * tensors["w"]}
    source = source_of(call, tensors, threads, blocks, monkeypatch)
    (launch,) = plan_of(source, tensors).launches
    assert launch.cluster[0] == blocks
    check(call, source, tensors, "checked")


@pytest.mark.many(2)
@pytest.mark.parametrize("channels", [32, 72])
def test_numbers_of_16_bits(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = of(x=(2, 96, 7, 9), w=(channels, 96, 3, 3), b=(channels,))()
    tensors = {name: (0.1 * t if name == "w" else t).bfloat16() for name, t in tensors.items()}
    source = source_of(ordinary(padding=1), tensors, 256, 2, monkeypatch)
    check(ordinary(padding=1), source, tensors, "checked")


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_is_not_finite_is_met_by_no_other_result(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    call, tensors = CASES["few channels"]
    tensors = with_one(tensors, value)
    source = source_of(call, tensors, 256, 3, monkeypatch)
    (got,) = run(source, tensors).outputs
    torch.testing.assert_close(got, call(tensors), rtol=1e-4, atol=1e-4, equal_nan=True)


def test_offered_where_tiles_are_few_and_terms_many() -> None:
    def shares(*x: int, channels: int = 32) -> list[int]:
        tensors = of(x=x, w=(channels, x[1], 3, 3))()
        (made,) = traits_of(problem_of(ordinary(padding=1), tensors, varying=False)).convolutions
        return list(shares_of(made, 256, [{}]))

    assert shares(1, 480, 14, 14) == [1, 2, 3, 4, 5, 6, 8, 16]
    assert shares(1, 64, 14, 14) == [1, 2, 4, 8]
    assert shares(1, 7, 14, 14) == [1]
    assert shares(64, 480, 56, 56) == [1]


def test_of_a_dense_block_it_is_proposed_first() -> None:
    tensors = of(x=(4, 480, 28, 28), w=(32, 480, 3, 3))()
    problem = problem_of(ordinary(padding=1), tensors, varying=False)
    first = max(seed_vectors(problem, H100, 4), key=lambda card: card.predicted_factor)
    assert "BLOCKS = " in generate(problem, first.vector).kernel.source
