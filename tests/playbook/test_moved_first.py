"""Rows that are moved as a whole: reduced where they are wanted, in one kernel, with the same numbers."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import applying

Tensors = dict[str, Tensor]
Results = Callable[[Tensors], tuple[Tensor, ...]]
VECTOR = (("threads_per_row", "warp"), ("vector_width", "4"), ("row_cache", "registers"))


def normed(t: Tensors) -> Tensor:
    return F.layer_norm(t["x"], (40,), t["w"], t["w"] + 1)


def first(t: Tensors) -> tuple[Tensor, ...]:
    return (normed(t)[:, 0],)


def last_of_every_second(t: Tensors) -> tuple[Tensor, ...]:
    """A selection, and a slice of what it leaves: the axes are counted anew behind it."""
    return (normed(t)[:, -1][::2],)


def all_but_the_first(t: Tensors) -> tuple[Tensor, ...]:
    return ((normed(t) + t["y"])[:, 1:],)


def turned_round(t: Tensors) -> tuple[Tensor, ...]:
    return (t["x"].softmax(-1).flip((0, 1)),)


def rolled(t: Tensors) -> tuple[Tensor, ...]:
    return (normed(t).roll((2, -3), (0, 1)).view(-1, 40),)


def put_in_front(t: Tensors) -> tuple[Tensor, ...]:
    """A roll as it is spelled by hand."""
    x = normed(t)
    return (torch.cat((x[:, 5:], x[:, :5]), 1),)


def picked(t: Tensors) -> tuple[Tensor, ...]:
    return (normed(t)[:, t["i"]],)


def lengths(t: Tensors) -> tuple[Tensor, ...]:
    """A reduction of the rows that are left: fewer are read."""
    return (t["x"].square().sum(-1).sqrt()[:, 3:],)


def tensors() -> Tensors:
    return {
        "x": torch.randn(6, 12, 40),
        "y": torch.randn(12, 1),
        "w": torch.randn(40),
        "i": torch.tensor([7, -1, 0, 7]),
    }


MOVED = [
    first, last_of_every_second, all_but_the_first, turned_round, rolled, put_in_front, picked, lengths,
]  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("call", MOVED)
def test_rows_are_moved_first(call: Results) -> None:
    given = tensors()
    problem = problem_of(call, given)
    assert "moved_first" in applying(problem)
    for use, kernels in (("on", 1), ("off", None)):
        source = generate(problem, (*VECTOR, ("moved_first", use))).kernel.source
        assert kernels is None or source.count("__global__") == kernels
        check(call, source, given, "checked")


def all_of_them(t: Tensors) -> tuple[Tensor, ...]:
    """Somebody else reads the rows as they are."""
    x = normed(t)
    return x, x[:, 0] * 2


def means_are_read_too(t: Tensors) -> tuple[Tensor, ...]:
    mean = t["x"].mean(-1, keepdim=True)
    return mean, (t["x"] - mean)[:, 1:]


def within_a_row(t: Tensors) -> tuple[Tensor, ...]:
    return (t["x"].softmax(-1)[:, :, 3:],)


def columns(t: Tensors) -> tuple[Tensor, ...]:
    """The axis that is cut is the one that is reduced."""
    return (t["x"].softmax(1)[:, 1:],)


def nothing_is_reduced(t: Tensors) -> tuple[Tensor, ...]:
    return ((t["x"] * t["y"]).roll(1, 0),)


def few_results(t: Tensors) -> tuple[Tensor, ...]:
    """One number a row, and none left out: it is moved when it has been made."""
    return (t["x"].sum(-1).flip(0),)


def several_lists(t: Tensors) -> tuple[Tensor, ...]:
    return (normed(t)[t["i"] % 6, t["i"]],)


@pytest.mark.parametrize(
    "call",
    [
        all_of_them,
        means_are_read_too,
        within_a_row,
        columns,
        nothing_is_reduced,
        few_results,
        several_lists,
    ],
)
def test_others_stay_as_they_are(call: Results) -> None:
    assert "moved_first" not in applying(problem_of(call, tensors()))
