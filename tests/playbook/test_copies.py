"""Rows that repeat are read once for several copies; vectors of a thread are asked for together."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import H100, Problem, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.flat_seeds import flat_seeds
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.techniques.table import settled

Tensors = dict[str, Tensor]
FOUR: Vector = (("block_size", "64"), ("index_width", "32"), ("loads_in_flight", "4"), ("vector_width", "4"))


VECTORS: Vector = tuple(pair for pair in FOUR if pair[0] != "loads_in_flight")


def placed(t: Tensors) -> Tensor:
    return t["x"] + t["place"]


def turned(t: Tensors) -> Tensor:
    first, second = t["x"].chunk(2, dim=-1)
    return t["x"] * t["place"] + torch.cat([-second, first], dim=-1) * t["place"].cos()


@pytest.mark.many(6)
@pytest.mark.parametrize("copies", [2, 4, 6])
@pytest.mark.parametrize("call", [placed, turned])
def test_a_row_that_repeats_is_read_once_for_four_copies(call: Call, copies: int) -> None:
    tensors = {"x": torch.randn(copies, 33, 64), "place": torch.randn(33, 64)}
    source = generate(problem_of(call, tensors), FOUR).kernel.source
    assert "place_pack = load<VEC>(place + at);" in source
    assert source.index("place_pack = ") < source.index("for (int item")
    check(call, source, tensors, "checked")


HEADS = {"x": torch.randn(2, 6, 5, 8), "place": torch.randint(0, 90, (2, 5))}


def rotated(t: Tensors) -> Tensor:
    """Heads in front of positions: (batch, heads, positions, columns)."""
    return _rotated(t["x"], t["place"][:, None, :, None])


def rotated_behind(t: Tensors) -> Tensor:
    """Heads behind positions: (batch, positions, heads, columns)."""
    x = t["x"]
    return _rotated(x.reshape(x.shape[0], x.shape[2], x.shape[1], x.shape[3]), t["place"][:, :, None, None])


def _rotated(x: Tensor, place: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    frequency = 1.0 / 100.0 ** (torch.arange(half, device=x.device).to(x.dtype) / half)
    angles = place.to(x.dtype) * frequency
    angles = torch.cat([angles, angles], dim=-1)
    turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * angles.cos() + turned * angles.sin()


@pytest.mark.many(6)
@pytest.mark.parametrize("items", ["2", "4", "8"])
@pytest.mark.parametrize("call", [rotated, rotated_behind])
def test_what_is_slow_is_computed_once_for_the_rows_of_a_thread(call: Call, items: str) -> None:
    """Of six heads, four and two, or all six where eight would fit."""
    vector = (*VECTORS, ("loads_in_flight", items))
    source = generate(problem_of(call, HEADS), vector).kernel.source
    kernel = source[source.index("__global__") :]
    once, each = kernel.split("for (int item")
    assert "GROUPS" in once
    assert once.count("cosf(") == once.count("sinf(") == once.count("powf(") == 1
    assert "f(" not in each.replace("if (", "")
    check(call, source, HEADS, "checked")


def shared_by_all(t: Tensors) -> Tensor:
    return t["x"] * (t["place"].exp() / (1.0 + t["place"].cos().exp()))


@pytest.mark.parametrize("copies", [1, 3, 16])
def test_a_row_that_all_share_is_computed_once_and_read_in_vectors(copies: int) -> None:
    tensors = {"x": torch.randn(copies, 7, 4), "place": torch.randn(7, 4)}
    sizes = {"x": torch.randn(4, 7, 4), "place": torch.randn(7, 4)}
    source = generate(problem_of(shared_by_all, sizes), FOUR).kernel.source
    assert source.count("cosf(") == 1
    assert source.index("place_pack = load<VEC>(place + at)") < source.index("cosf(")
    assert source.index("cosf(") < source.index("for (int item")
    check(shared_by_all, source, tensors, "checked")


def test_many_rows_a_thread_are_expected_to_pay_for_what_is_slow() -> None:
    heads = {"x": torch.zeros(4, 32, 2048, 64), "place": torch.zeros(4, 2048, dtype=torch.int64)}
    problem = problem_of(rotated, heads)
    sizes = problem.cases[0].size_map
    times = [
        estimate(problem, settled(problem, (*VECTORS, ("loads_in_flight", items))), H100, sizes).us
        for items in ("1", "2", "4")
    ]
    assert times == sorted(times, reverse=True)
    assert dict(first_of(problem))["loads_in_flight"] in ("4", "8", "16")


def first_of(problem: Problem) -> Vector:
    """What a search would begin with."""
    return min(flat_seeds(problem), key=lambda vector: mean_us(problem, vector, H100))


def in_a_half(t: Tensors) -> Tensor:
    return t["x"] * torch.cat([t["place"], t["place"].cos()], dim=-1)


def cheap(t: Tensors) -> Tensor:
    return t["x"] * (t["place"] * 2.0 + 1.0)


def test_places_may_be_made_of_what_is_computed_once() -> None:
    """A line of places, turned by an angle: an image is looked up there, row after row."""

    def looked_up(t: Tensors) -> Tensor:
        place = t["angle"].cos() * torch.arange(64.0, device=t["x"].device)
        return t["x"][(torch.arange(96.0, device=place.device)[:, None] + place).long().clamp(0, 200)]

    tensors = {"x": torch.randn(201), "angle": torch.rand(1)}
    problem = problem_of(looked_up, tensors)
    assert estimate(problem, settled(problem, FOUR), H100, problem.cases[0].size_map).us > 0
    check(looked_up, generate(problem, FOUR).kernel.source, tensors, "checked")


def test_what_only_one_branch_needs_stays_there_and_what_is_cheap_is_computed_again() -> None:
    for call, width in ((in_a_half, 8), (cheap, 16)):
        tensors = {"x": torch.randn(4, 33, 16), "place": torch.randn(33, width)}
        source = generate(problem_of(call, tensors), FOUR).kernel.source
        assert "VECTORS" not in source
        check(call, source, tensors, "checked")


def test_without_whole_vectors_or_in_one_vector_a_thread_it_is_not_done() -> None:
    odd = {"x": torch.randn(4, 3, 5), "place": torch.randn(3, 5)}
    even = {"x": torch.randn(4, 3, 8), "place": torch.randn(3, 8)}
    for tensors, vector in ((odd, FOUR), (even, VECTORS)):
        source = generate(problem_of(placed, tensors), vector).kernel.source
        assert "first_row" not in source
        check(placed, source, tensors, "checked")


def test_long_lines_of_short_rows_keep_all_threads_at_work() -> None:
    """A bias of 16 elements would leave 60 of 64 threads idle."""
    tensors = {"x": torch.randn(4096, 16), "place": torch.randn(16)}
    assert "first_row" not in generate(problem_of(placed, tensors), FOUR).kernel.source


@pytest.mark.parametrize("rows", [16, 15])
def test_a_line_of_whole_blocks_has_no_branch_before_its_loads(rows: int) -> None:
    tensors = {name: torch.randn(rows, 64) for name in ("x", "place")}
    source = generate(problem_of(placed, tensors), FOUR).kernel.source
    assert "if (WHOLE || i < COUNT)" in source
    check(placed, source, tensors, "checked")
