"""Views against numpy's strides: every chain of view operations finds the same elements."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.playbook.ir.sizes import ONE, Size, number
from workbench.playbook.ir.views import (
    NotAView,
    View,
    contiguous,
    expanded,
    permuted,
    runs,
    sliced,
    split,
    strided,
)


def sizes(shape: tuple[int, ...]) -> tuple[Size, ...]:
    return tuple(number(size) for size in shape)


def elements(view: View) -> list[int]:
    """Offset that every linear index finds."""
    found = [view.offset.number or 0]
    for axis in view.axes:
        count, stride = axis.size.number or 0, axis.stride.number or 0
        found = [start + step * stride for start in found for step in range(count)]
    return found


Change = tuple[str, int, int]


KINDS = st.sampled_from(["permute", "slice", "piece", "flip", "expand", "flatten"])
CHANGES = st.tuples(KINDS, st.integers(0, 3), st.integers(0, 3))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4),
    st.lists(CHANGES, max_size=5),
)
def test_chains_of_changes_find_the_elements_numpy_finds(shape: list[int], changes: list[Change]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape)
    view = contiguous(sizes(array.shape))
    for change in changes:
        try:
            array, view = changed(array, view, change)
        except NotAView:
            return
    assert elements(view) == array.reshape(-1).tolist()


def changed(array: np.ndarray, view: View, change: Change) -> tuple[np.ndarray, View]:
    kind, first, second = change
    own = sizes(array.shape)
    axis = first % array.ndim
    length = array.shape[axis]
    match kind:
        case "permute":
            order = [axis, *(other for other in range(array.ndim) if other != axis)]
            return array.transpose(order), permuted(view, own, order)
        case "slice":
            start, step = second % length, 1 + first
            part = np.take(array, range(start, length, step), axis)
            return part, sliced(view, own, axis, number(start), number(step), number(part.shape[axis]))
        case "piece":
            start, count = second * length // 4, max(1, length // (1 + first))
            part = array.take(range(start, min(start + count, length)), axis)
            return part, sliced(view, own, axis, number(start), ONE, number(part.shape[axis]))
        case "flip":
            return np.flip(array, axis), sliced(
                view, own, axis, number(length - 1), number(-1), number(length)
            )
        case "expand":
            wider = (second + 1, *array.shape)
            return np.broadcast_to(array, wider), expanded(view, own, sizes(wider))
        case _:
            return array.reshape(-1), view


def test_a_split_gives_a_row_part_and_a_column_part() -> None:
    view = strided(sizes((2, 3, 4)), sizes((12, 1, 3)))
    row, column = split(view, number(2), number(12))
    assert elements(row) == [0, 12]
    assert elements(column) == [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(0, 24, 1), (8, 24, 1), (4, 8, 1), (0, 1, 1), (17, 18, 1), (13, 15, 1), (4, 8, 2), (7, 4, -1)],
)
def test_pieces_of_axes_that_were_turned_are_views(start: int, stop: int, step: int) -> None:
    """Of 3 by 2 by 4 elements, the last of which are furthest apart: all, whole lines, what lies in one."""
    array = np.arange(24).reshape(4, 2, 3).transpose(2, 1, 0)
    view = permuted(contiguous(sizes((4, 2, 3))), sizes((4, 2, 3)), (2, 1, 0))
    wanted = array.reshape(-1)[start:stop:step]
    part = sliced(view, (number(24),), 0, number(start), number(step), number(len(wanted)))
    assert elements(part) == wanted.tolist()
    with pytest.raises(NotAView):
        sliced(view, (number(24),), 0, number(start), number(5), number(5))


def test_an_axis_that_is_cut_is_no_view() -> None:
    view = strided(sizes((2, 3)), sizes((1, 2)))
    with pytest.raises(NotAView):
        runs(view, (number(3), number(2)))


def test_linear_and_constant() -> None:
    assert contiguous(sizes((2, 3))).is_linear
    assert strided(sizes((2, 3)), sizes((0, 0))).is_constant
    assert not strided(sizes((2, 3)), sizes((1, 2))).is_linear
    assert contiguous((ONE,)).is_linear
