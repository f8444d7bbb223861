"""Rows that repeat are read once for several copies; vectors of a thread are asked for together."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import Vector
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]
FOUR: Vector = (("block_size", "64"), ("index_width", "32"), ("loads_in_flight", "4"), ("vector_width", "4"))


def placed(t: Tensors) -> Tensor:
    return t["x"] + t["place"]


def turned(t: Tensors) -> Tensor:
    first, second = t["x"].chunk(2, dim=-1)
    return t["x"] * t["place"] + torch.cat([-second, first], dim=-1) * t["place"].cos()


@pytest.mark.parametrize("copies", [2, 4, 6])
@pytest.mark.parametrize("call", [placed, turned])
def test_a_row_that_repeats_is_read_once_for_four_copies(call: Call, copies: int) -> None:
    tensors = {"x": torch.randn(copies, 33, 64), "place": torch.randn(33, 64)}
    source = generate(problem_of(call, tensors), FOUR).kernel.source
    assert "place_pack = load<VEC>(place + at);" in source
    assert source.index("place_pack = ") < source.index("for (int item")
    check(call, source, tensors, "checked")


def test_without_whole_vectors_or_in_one_vector_a_thread_it_is_not_done() -> None:
    odd = {"x": torch.randn(4, 3, 5), "place": torch.randn(3, 5)}
    even = {"x": torch.randn(4, 3, 8), "place": torch.randn(3, 8)}
    one = tuple(pair for pair in FOUR if pair[0] != "loads_in_flight")
    for tensors, vector in ((odd, FOUR), (even, one)):
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
