"""Inputs that lie across the result are turned round in shared memory, at odd sizes too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of
from workbench.compile import compile_kernel
from workbench.model import H100, CompileReport, Vector
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled

half = torch.float16


def heads(t: dict[str, Tensor]) -> Tensor:
    return t["x"].permute(0, 2, 1) * t["s"] + t["y"]


def channels_last(t: dict[str, Tensor]) -> Tensor:
    return (t["x"].permute(0, 2, 3, 1) + t["b"]).contiguous()


def nibbles(t: dict[str, Tensor]) -> Tensor:
    """Two numbers of a byte side by side, with a scale that eight bytes share, and then turned round."""
    pairs = torch.stack((t["x"] & 15, t["x"] >> 4), -1).flatten(-2).unflatten(-1, (-1, 16))
    return (pairs.float() * t["s"].unsqueeze(-1)).flatten(-2).transpose(-1, -2).contiguous()


BYTES = torch.randint(0, 256, (2, 35, 48), dtype=torch.uint8)
CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "plain": (lambda t: t["x"].t() + t["y"], of(x=(37, 50), y=(50, 37))()),
    "whole tiles": (lambda t: (t["x"].t() + 1).contiguous(), of(x=(64, 64))()),
    "wide": (lambda t: t["x"].t().contiguous(), of(x=(130, 17))()),
    "batched": (heads, of(x=(3, 33, 40), y=(3, 40, 33), s=(33,))()),
    "channels last": (channels_last, of(x=(2, 35, 3, 13), b=(35,))()),
    "sliced": (lambda t: (t["x"][2:, 1:].t() * 2).contiguous(), of(x=(40, 36))()),
    "two": (lambda t: t["x"].t() * t["y"].t() + t["z"], of(x=(33, 65), y=(33, 65), z=(65, 33))()),
    "two results": (lambda t: (t["x"].t() + t["y"], t["x"].t() - t["y"]), of(x=(20, 50), y=(50, 20))()),
    "half": (lambda t: t["x"].t() + t["y"], of(x=((37, 50), half), y=((50, 37), half))()),
    "bytes": (lambda t: torch.where(t["m"].t(), t["y"], 0.0), of(m=torch.rand(37, 50) > 0.5, y=(50, 37))()),
    "double": (lambda t: t["x"].t() + t["y"], of(x=((20, 21), torch.float64), y=((21, 20), torch.float64))()),
    "flipped": (lambda t: t["x"].t().flip(1) + t["y"], of(x=(37, 50), y=(50, 37))()),
    "nibbles": (nibbles, of(x=BYTES, s=(2, 35, 6))()),
    "four axes": (lambda t: (t["x"].permute(3, 1, 2, 0) + 1).contiguous(), of(x=(17, 2, 3, 19))()),
}
VECTORS: tuple[Vector, ...] = (
    (("turned_tile", "32"),),
    (("block_size", "1024"), ("index_width", "32"), ("stream_hints", "on"), ("turned_tile", "64")),
)


@pytest.mark.many(13)
@pytest.mark.parametrize("name", CALLS)
def test_right_at_odd_sizes_and_read_along_its_neighbours(name: str) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "turned")
    for vector in VECTORS:
        source = generate(problem, vector).kernel.source
        assert "_tile[TILE][TILE + " in source
        execution = check(call, source, tensors, "checked")
        for site in execution.report.counts.sites:
            assert site.transactions <= 2 * site.ideal_transactions + 2 * site.requests, site


def test_what_both_branches_read_is_turned_round_and_so_is_a_scale_that_neighbours_share() -> None:
    call, tensors = CALLS["nibbles"]
    source = generate(problem_of(call, tensors, "turned"), VECTORS[1]).kernel.source
    assert "x_tile[line + k][lane]" in source and "s_tile[line + k][lane]" in source
    assert "row / " in source, "the scale of a row is that of eight"


def test_the_tile_is_among_the_first_seeds_and_on_the_card() -> None:
    call, tensors = CALLS["plain"]
    problem = problem_of(call, tensors, cases=({"s0": 8192, "s1": 8192},))
    cards = seed_vectors(problem, H100, 3)
    assert dict(cards[2].vector or ())["turned_tile"] != "off"
    assert "round in shared memory" in cards[2].title and cards[2].predicted_factor > 1.3


def test_short_axes_and_plain_inputs_make_no_tiles() -> None:
    short = problem_of(lambda t: t["x"].permute(0, 2, 1) + 1, of(x=(40, 3, 50))())
    plain = problem_of(lambda t: t["x"] + t["y"], of(x=(40, 50), y=(50,))())
    for problem in (short, plain):
        assert "turned_tile" not in dict(settled(problem, (("turned_tile", "32"),)))


def test_nvrtc_takes_it_without_warnings() -> None:
    for name in ("channels last", "half", "two"):
        call, tensors = CALLS[name]
        source = generate(problem_of(call, tensors), VECTORS[1]).kernel.source
        report = compile_kernel(source, plan_of(source, tensors).instances)
        assert isinstance(report, CompileReport) and not report.warnings
