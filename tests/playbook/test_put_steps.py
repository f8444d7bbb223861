"""``out[:, t] = h`` in a loop: values side by side, each stored once, and a loop where steps are alike."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import rewrite

Tensors = dict[str, Tensor]


def filled(t: Tensors) -> Tensor:
    out, state = torch.empty_like(t["x"]), torch.zeros_like(t["x"][:, 0])
    for step in range(t["x"].shape[1]):
        state = 0.5 * state + t["x"][:, step]
        out[:, step] = state
    return out


def read_back(t: Tensors) -> Tensor:
    """The state is what was put last, and the first of all is a zero that nobody returns."""
    rows, steps, inner = t["x"].shape
    out = torch.zeros(rows, steps + 1, inner)
    for step in range(steps):
        out[:, step + 1] = 0.5 * out[:, step] + t["x"][:, step]
    return out[:, 1:]


def with_the_first(t: Tensors) -> Tensor:
    rows, steps, inner = t["x"].shape
    out = torch.ones(rows, steps + 1, inner)
    for step in range(steps):
        out[:, step + 1] = 0.5 * out[:, step] + t["x"][:, step]
    return out


def backwards_rounded(t: Tensors) -> tuple[Tensor, Tensor]:
    """Along the first axis, from the end, in another type; and the state."""
    rows, steps, inner = t["x"].shape
    out, state = torch.empty(steps, rows, inner, dtype=torch.bfloat16), torch.zeros_like(t["x"][:, 0])
    for step in range(steps - 1, -1, -1):
        state = 0.5 * state + t["x"][:, step]
        out[step] = state
    return out, state


def twice(t: Tensors) -> Tensor:
    """What is put at a place last counts."""
    out = torch.zeros_like(t["x"])
    for step in range(t["x"].shape[1]):
        out[:, step] = t["x"][:, step] * 2
        out[:, step] = out[:, step] + 1
    return out


def columns_of_numbers(t: Tensors) -> Tensor:
    """A value that is the same for a whole column is spread over it."""
    out = torch.empty_like(t["x"])
    for step in range(t["x"].shape[1]):
        out[:, step] = t["x"][0, step].tanh()
    return out


LOOPS: tuple[Call, ...] = (
    filled,
    read_back,
    with_the_first,
    backwards_rounded,
    twice,
    columns_of_numbers,
)


def choices(call: Call, tensors: Tensors) -> int:
    graph = rewrite(problem_of(call, tensors, varying=False), frozenset(["whole_records"]))
    return sum(node.op == "aten.where.self" for node in graph.nodes)


@pytest.mark.many(4)
@pytest.mark.parametrize("call", LOOPS)
def test_no_choice_is_left_and_the_numbers_are_right(call: Call) -> None:
    tensors = {"x": torch.randn(3, 12, 5)}
    assert not choices(call, tensors)
    problem = problem_of(call, tensors, varying=False)
    for vector in ((), (("vector_width", "4"), ("index_width", "32"))):
        check(call, generate(problem, vector).kernel.source, tensors, "checked")


@pytest.mark.many(2)
@pytest.mark.parametrize("call", [filled, read_back, with_the_first, backwards_rounded])
def test_steps_that_are_alike_are_a_loop(call: Call) -> None:
    tensors = {"x": torch.randn(3, 12, 5)}
    problem = problem_of(call, tensors, varying=False)
    source = generate(problem, (("rolled_steps", "8"), ("index_width", "32"))).kernel.source
    assert source.count("for (int first = 0;") == 1 and source.count("__global__") == 1
    check(call, source, tensors, "checked")


def test_what_is_partly_put_stays_a_choice() -> None:
    """Pieces of a tensor that is there already would each be copied by itself."""

    def every_second(t: Tensors) -> Tensor:
        out = t["x"].clone()
        for step in range(1, t["x"].shape[1], 2):
            out[:, step] = out[:, step - 1] * 0.3
        return out + 1

    tensors = {"x": torch.randn(3, 12, 5)}
    assert choices(every_second, tensors) == 6
    check(
        every_second,
        generate(problem_of(every_second, tensors, varying=False), ()).kernel.source,
        tensors,
        "checked",
    )


def test_a_few_stay_choices() -> None:
    assert choices(filled, {"x": torch.randn(3, 3, 5)}) == 3


def test_sizes_beside_may_vary() -> None:
    tensors = {"x": torch.randn(3, 12, 5)}

    def twelve(t: Tensors) -> Tensor:
        out, state = torch.empty_like(t["x"]), torch.zeros_like(t["x"][:, 0])
        for step in range(12):
            state = 0.5 * state + t["x"][:, step]
            out[:, step] = state
        return out

    source = generate(problem_of(twelve, tensors), ()).kernel.source
    check(twelve, source, tensors, "checked")
