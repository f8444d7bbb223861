"""Neighbouring results that share what they read: pairs that are turned, two numbers out of one byte."""

import pytest
import torch
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]


def turned_pairs(t: Tensors) -> Tensor:
    """Pairs side by side, each turned by an angle of its own."""
    even, odd = t["x"][..., 0::2], t["x"][..., 1::2]
    turned = (even * t["cos"] - odd * t["sin"], even * t["sin"] + odd * t["cos"])
    return torch.stack(turned, -1).flatten(-2)


def halves_of_bytes(t: Tensors) -> Tensor:
    """Two numbers of four bits out of one byte."""
    return torch.stack((t["packed"] & 15, t["packed"] >> 4), -1).flatten(-2).float() * t["scale"][:, None]


def four_times(t: Tensors) -> Tensor:
    """Every element of a row four times, with a weight a place."""
    return t["x"].repeat_interleave(4, -1) * t["weight"]


def first_of_pairs(t: Tensors) -> Tensor:
    """The second element of the last pair does not exist."""
    return t["x"][0::2].repeat_interleave(2) * t["weight"]


def one_of_a_pair(t: Tensors) -> Tensor:
    """Where a condition that is no place in the row decides, neither element may be read unasked."""
    return torch.where(t["weight"] > 0, t["x"][:, 0::2].repeat_interleave(2, -1), t["weight"])


def tensors_of(call: Call, rows: int, pairs: int) -> Tensors:
    made = torch.randn
    if call is turned_pairs:
        return {"x": made(rows, 3, 2 * pairs), "cos": made(rows, 1, pairs), "sin": made(rows, 1, pairs)}
    if call is halves_of_bytes:
        return {"packed": torch.randint(0, 256, (rows, pairs), dtype=torch.uint8), "scale": made(rows)}
    if call is first_of_pairs:
        return {"x": made(2 * pairs - 1), "weight": made(2 * pairs)}
    if call is four_times:
        return {"x": made(rows, pairs), "weight": made(4 * pairs)}
    return {"x": made(rows, 2 * pairs), "weight": made(rows, 2 * pairs)}


@pytest.mark.many(11)
@pytest.mark.parametrize(
    ("call", "sizes"),
    crossed(
        [turned_pairs, halves_of_bytes, four_times, first_of_pairs, one_of_a_pair],
        [(8, "8"), (6, "4"), (5, "2"), (8, "1"), (8, "4"), (6, "2"), (5, "8")],
    ),
)
def test_what_neighbours_share(call: Call, sizes: tuple[int, str]) -> None:
    pairs, width = sizes
    tensors = tensors_of(call, 5, pairs)
    source = generate(problem_of(call, tensors), (("vector_width", width),)).kernel.source
    check(call, source, tensors, "checked")


@pytest.mark.parametrize(
    ("call", "reads"),
    [
        (turned_pairs, {"load_group<VEC, 2>": 1, "load<(VEC + 1) / 2>": 2}),
        (halves_of_bytes, {"load<(VEC + 1) / 2>": 1}),
        (four_times, {"load<(VEC + 3) / 4>": 1}),
        (first_of_pairs, {"load_group<VEC, 2>": 0}),
    ],
)
def test_a_vector_of_results_reads_what_it_shares_once(call: Call, reads: dict[str, int]) -> None:
    source = generate(problem_of(call, tensors_of(call, 5, 8)), (("vector_width", "4"),)).kernel.source
    assert {text: source.count(f"= {text}(") for text in reads} == reads
