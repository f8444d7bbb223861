"""Places of what is largest: what is as good is right, and rows that the reference has otherwise are free."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from workbench.numerics import choices
from workbench.numerics.bounds import ROWS_LEFT, OutputBound, _admitting
from workbench.numerics.chosen_places import admitting, misplaced
from workbench.numerics.compare import compare
from workbench.numerics.tracked import exact

SCORES = torch.tensor([[5.0, 4.0, torch.nan, 3.0, 2.0], [1.0, 9.0, 9.0, 0.0, 7.0]])


def bound_of(places: int = 3) -> OutputBound:
    _, index = choices.selected(torch.ops.aten.topk.default, exact(SCORES, "f32"), [places], {}, "f32")
    zero = torch.zeros(index.value.shape, dtype=torch.float64)
    return OutputBound("i64", index.value, zero, index.tie, "running error of the graph")


def admitted(native: Tensor) -> OutputBound:
    return _admitting(bound_of(), native, lambda: torch.zeros(()))


def test_what_is_as_good_is_right_and_nothing_else() -> None:
    bound = bound_of()
    assert bound.tie is not None
    for row, wrong in (([1, 2, 4], 0), ([2, 1, 4], 0), ([2, 2, 4], 3), ([1, 2, 0], 1), ([1, 2, 5], 1)):
        got = torch.stack([bound.expected[0], torch.tensor(row)])
        assert int((misplaced(got, bound.tie)[1] > 0).sum()) == wrong, row


def test_nothing_is_asked_of_a_row_that_the_reference_has_otherwise() -> None:
    """A library's float32 puts NaN behind the numbers where its float64 puts it before them."""
    native = torch.tensor([[0, 1, 2], [1, 2, 4]])
    assert compare(native, bound_of()).max_ratio > 1
    bound = admitted(native)
    assert bound.basis.endswith(ROWS_LEFT) and bound.decisive
    assert compare(native, bound).max_ratio == 0
    assert compare(torch.tensor([[4, 4, 4], [2, 1, 4]]), bound).max_ratio == 0
    found = compare(torch.tensor([[0, 1, 2], [1, 2, 3]]), bound)
    assert found.max_ratio > 1 and [one.index for one in found.worst] == [(1, 2)]


def test_where_it_has_no_row_as_float64_has_nothing_is_decided() -> None:
    assert not admitted(torch.tensor([[0, 1, 2], [0, 3, 4]])).decisive


def test_a_reference_that_is_right_changes_nothing() -> None:
    bound = bound_of()
    assert bound.tie is not None and admitting(bound.tie, torch.tensor([[2, 0, 1], [2, 1, 4]])) is bound.tie
    assert compare(bound.expected, bound).max_ratio == 0


def test_of_whole_numbers_that_are_equal_the_first_is_the_one() -> None:
    """``mask.int().argmax(1)`` asks for the first that is set; where floats are equal any of them will do."""
    hits = torch.tensor([[0, 1, 1, 0, 1], [0, 0, 0, 0, 0]], dtype=torch.int32)
    op = torch.ops.aten.argmax.default
    for dtype, wrong in (("i32", [0, 1, 1, 1]), ("f32", [0, 0, 1, 0])):
        index = choices.index_of_extremum(op, exact(hits, dtype), 1, False)  # type: ignore[arg-type]
        assert index.tie is not None
        found = [misplaced(torch.tensor([place, 0]), index.tie)[1] > 0 for place in (1, 2, 3)]
        found.append(misplaced(torch.tensor([1, 4]), index.tie)[1] > 0)
        assert [int(one.any()) for one in found] == wrong
        assert (index.error > 0).tolist() == [dtype == "f32"] * 2
        assert choices.is_left_open(index) is (dtype == "f32")
    for name in ("max", "min"):
        _, index = choices.selected(
            getattr(torch.ops.aten, name).dim, exact(hits.clamp(max=0), "i32"), [1], {}, "i32"
        )
        assert index.tie is not None and index.tie.first and not bool(index.error.any())
        assert int((misplaced(torch.tensor([0, 1]), index.tie)[1] > 0).sum()) == 1


def test_a_whole_number_that_may_be_another_leaves_its_place_in_doubt() -> None:
    """The third may be as large as the second, which is sure to come before the fourth."""
    counts = exact(torch.tensor([[1, 5, 4, 5]]), "i64")
    rough = replace(counts, shared=torch.tensor([[0.0, 0.0, 1.0, 0.0]], dtype=torch.float64))
    index = choices.index_of_extremum(torch.ops.aten.argmax.default, rough, 1, False)
    assert index.tie is not None and bool(index.error > 0)
    assert [int(misplaced(torch.tensor([at]), index.tie)[1] > 0) for at in range(4)] == [1, 0, 0, 1]


@pytest.mark.parametrize("first", [9.0, torch.nan])
def test_what_may_be_anything_pushes_all_behind_it_aside(first: float) -> None:
    """Of two groups of experts that are as good one is left out: what a token has of the third moves."""
    scores = exact(torch.tensor([[first, 8.0, 7.0, 6.0, 5.0, -torch.inf, 4.0]]), "f32")
    doubt = torch.tensor([[0.0, torch.inf, 0.0, 0.0, 0.0, torch.inf, 0.0]], dtype=torch.float64)
    _, index = choices.selected(torch.ops.aten.topk.default, replace(scores, shared=doubt), [4, 1], {}, "f32")
    assert index.value.tolist() == [[0, 1, 2, 3]] and index.tie is not None
    for places, wrong in (
        ([0, 1, 2, 3], 0),
        ([0, 2, 3, 4], 0),  # without the first in doubt
        ([0, 2, 5, 3], 0),  # and with the other in its place
        ([5, 0, 1, 2], 0),
        ([2, 0, 3, 4], 1),  # nothing that is in doubt brings the third to the front
        ([0, 2, 4, 3], 1),  # the fourth comes before the fifth in any case
        ([0, 2, 3, 6], 1),  # three are sure to be before it, and one more
        ([0, 2, 2, 3], 4),
    ):
        off = misplaced(torch.tensor([places]), index.tie)[1]
        assert int((off > 0).sum()) >= min(wrong, 1) and (wrong or not bool(off.any())), places
