"""Rows and columns of products that nobody wants: not made, and the others come out the same."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench.model import H100, Passed, size_of
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import applying, rewrite
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem
from workbench.referee.judge import judge
from workbench.referee.options import JudgeOptions

Tensors = dict[str, Tensor]
Results = Callable[[Tensors], tuple[Tensor, ...]]


def last_token(t: Tensors) -> tuple[Tensor, ...]:
    """The rows of the product are tokens of all sentences: one axis of what was two."""
    return (F.linear(F.layer_norm(t["x"], (16,)), t["w"], t["b"])[:, -1],)


def block(t: Tensors) -> tuple[Tensor, ...]:
    """A residual stream: what is added is taken from the tokens as they came."""
    x = t["x"]
    x = x + F.linear(F.gelu(F.linear(F.layer_norm(x, (16,)), t["w"])), t["back"])
    return (F.layer_norm(x, (16,))[:, 0] * 2,)


def class_token(t: Tensors) -> tuple[Tensor, ...]:
    """The queries that are wanted meet all keys."""
    q, k, v = (F.linear(t["x"], one).view(3, 9, 2, 8).transpose(1, 2) for one in t["heads"])
    found = ((q @ k.transpose(-1, -2)) * 0.3).softmax(-1) @ v
    return (F.linear(found.transpose(1, 2).reshape(3, 9, 16), t["w"])[:, 0],)


def attended_in_one_call(t: Tensors) -> tuple[Tensor, ...]:
    heads = t["x"].view(3, 9, 2, 8).transpose(1, 2)
    found = F.scaled_dot_product_attention(heads, heads, heads)
    return (found.transpose(1, 2).reshape(3, 9, 16)[:, -1],)


def some_tokens(t: Tensors) -> tuple[Tensor, ...]:
    return ((t["x"] @ t["w"].T)[:, 2:8:2].relu(),)


def some_classes(t: Tensors) -> tuple[Tensor, ...]:
    """Columns of the result are columns of the right factor, and numbers of the bias."""
    return (torch.addmm(t["b"], t["x"][0], t["w"].T)[:, :5],)


def one_image(t: Tensors) -> tuple[Tensor, ...]:
    return ((t["x"] @ t["x"].transpose(1, 2)).exp()[1],)


def last_of_each(t: Tensors) -> tuple[Tensor, ...]:
    """Columns of products of a batch."""
    return ((t["x"] @ t["x"].transpose(1, 2))[..., -1].sum(-1),)


def summed_across(t: Tensors) -> tuple[Tensor, ...]:
    """An axis in front of the one that is taken is reduced away."""
    return ((t["x"] @ t["w"].T).square().sum(0)[3],)


def tensors() -> Tensors:
    return {
        "x": torch.randn(3, 9, 16),
        "w": torch.randn(24, 16) / 4,
        "b": torch.randn(24),
        "back": torch.randn(16, 24) / 4,
        "heads": torch.randn(3, 16, 16) / 4,
    }


TAKEN = [
    last_token, block, class_token, attended_in_one_call, some_tokens, some_classes, one_image, last_of_each,
    summed_across,
]  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("call", TAKEN)
def test_only_wanted_rows_are_multiplied(call: Results) -> None:
    given = tensors()
    problem = problem_of(call, given)
    assert "wanted_rows" in applying(problem)
    for use in ("on", "off"):
        check(call, generate(problem, (("wanted_rows", use),)).kernel.source, given, "checked")


@pytest.mark.parametrize("call", [last_token, block, class_token, attended_in_one_call, one_image])
def test_the_last_product_makes_what_is_wanted_and_no_more(call: Results) -> None:
    problem = problem_of(call, tensors())
    graph = rewrite(problem)
    products = ("mm", "bmm", "addmm", "scaled_dot_product_attention")
    last = [node for node in graph.nodes if node.base_name in products][-1]
    (case,) = problem.cases
    sizes = [
        [size_of(dim, case.size_map) for dim in dims] for dims in (last.outs[0].dims, problem.outputs[0].dims)
    ]
    assert torch.Size(sizes[0]).numel() == torch.Size(sizes[1]).numel()


def all_are_read(t: Tensors) -> tuple[Tensor, ...]:
    y = t["x"] @ t["w"].T
    return y, y[:, 0] * 2


def read_in_two_ways(t: Tensors) -> tuple[Tensor, ...]:
    """One token, and the mean of all."""
    y = t["x"] @ t["w"].T
    return (y[:, 0] - y.mean(1),)


def most_of_them(t: Tensors) -> tuple[Tensor, ...]:
    return ((t["x"] @ t["w"].T)[:, 1:],)


def shares_of_all(t: Tensors) -> tuple[Tensor, ...]:
    """What is taken depends on all tokens: the axis is reduced between."""
    return ((t["x"] @ t["w"].T).softmax(1)[:, 0],)


def running(t: Tensors) -> tuple[Tensor, ...]:
    return ((t["x"] @ t["w"].T).cumsum(1)[:, -1],)


def across_axes(t: Tensors) -> tuple[Tensor, ...]:
    """What is taken lies across the axes of the product, no part of one."""
    return ((t["x"][0] @ t["w"].T).view(24, 9)[5],)


def no_product(t: Tensors) -> tuple[Tensor, ...]:
    return (t["x"].exp()[:, 0],)


@pytest.mark.parametrize(
    "call",
    [all_are_read, read_in_two_ways, most_of_them, shares_of_all, running, across_axes, no_product],
)
def test_others_stay_as_they_are(call: Results) -> None:
    assert "wanted_rows" not in applying(problem_of(call, tensors()))


def test_kernels_beside_a_library_s_few_rows_are_not_charged_for_all_of_them() -> None:
    """By the model of time: what the reference multiplies beyond the rows that are wanted, nobody does."""
    cell = (
        "import torch\nfrom torch.nn import functional as F\n"
        "def f(x, w, v):\n    return F.linear(F.layer_norm(x, (64,)), w)[:, -1] * v\n"
        "inputs = [torch.randn(8, 512, 64), torch.randn(2048, 64), torch.randn(2048)]\n"
    )
    problem = open_problem(read_cell(cell))
    times = {}
    for use in ("on", "off"):
        vector = (("matrix_product", "library"), ("wanted_rows", use))
        judged = judge(problem, generate(problem, vector).kernel, H100, JudgeOptions(), lambda stage: None)
        assert judged.outcome == Passed()
        times[use] = judged.times[0].time_us
    assert times["on"] < times["off"] / 3
