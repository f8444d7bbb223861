"""Overlapping blocks put together: a place adds up what it is given, and nothing is added to memory."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]
SIZE = (9, 14)
WAYS = {
    "every place": (3, 1, 1, 1),
    "every other place": (4, 1, 1, 2),
    "blocks side by side": (2, 1, 0, 2),
    "with gaps in a block": (3, (2, 1), (2, 0), 1),
    "with gaps between blocks": ((2, 1), 1, 0, (2, 3)),
    "unequal": ((2, 5), 1, (1, 3), (3, 2)),
    "many that overlap": (6, 1, 2, 3),
}
PUT_SIDE_BY_SIDE = ("every other place", "blocks side by side")
"""Of 9 rows, which no stride of 2 divides: what is put side by side is cut behind that."""


def folded(t: Tensors, way: tuple[int | tuple[int, int], ...]) -> Tensor:
    return F.fold(t["x"], SIZE, *way) * 2.0


def blocks(way: tuple[int | tuple[int, int], ...]) -> tuple[int, int]:
    """Elements of a block, and blocks."""
    kernel, dilation, padding, stride = ((one, one) if isinstance(one, int) else one for one in way)
    along = [
        (size + 2 * beside - step * (width - 1) - 1) // apart + 1
        for size, width, step, beside, apart in zip(SIZE, kernel, dilation, padding, stride, strict=True)
    ]
    return kernel[0] * kernel[1], along[0] * along[1]


@pytest.mark.many(7)
@pytest.mark.parametrize("name", WAYS)
def test_blocks_are_added_where_they_are_read(name: str) -> None:
    way = WAYS[name]
    elements, count = blocks(way)
    for shape in ((2, 3 * elements, count), (2 * elements, count)):
        tensors = {"x": torch.randn(shape)}
        call = partial(folded, way=way)
        source = generate(problem_of(call, tensors), (("fusion", "all"),)).kernel.source
        assert "atomic" not in source
        assert source.count("__global__") == (2 if name in PUT_SIDE_BY_SIDE else 1)
        check(call, source, tensors, "checked")


def test_a_fold_undoes_what_an_unfold_has_done() -> None:
    def both(t: Tensors) -> Tensor:
        return F.fold(F.unfold(t["x"], 3, padding=1) * 0.5, SIZE, 3, padding=1)

    tensors = {"x": torch.randn(2, 2, *SIZE)}
    check(both, generate(problem_of(both, tensors), ()).kernel.source, tensors, "checked")


def test_blocks_with_gaps_inside_and_between_them_are_torchs() -> None:
    way = ((2, 2), (3, 2), 0, (3, 2))
    elements, count = blocks(way)
    tensors = {"x": torch.randn(2, elements, count)}
    call = partial(folded, way=way)
    check(call, generate(problem_of(call, tensors), ()).kernel.source, tensors, "checked")
