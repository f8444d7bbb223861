"""The largest of values that grow with an element: made of the largest element, which is known."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, run
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import applying

Tensors = dict[str, Tensor]


def sure(t: Tensors) -> tuple[Tensor, Tensor]:
    """How large the best share is, and which shares come near it."""
    share = torch.softmax(t["x"] / 0.7, 1)
    best, _ = share.max(1)
    return best, share >= best[:, None]


def logarithms(t: Tensors) -> Tensor:
    return t["x"].log_softmax(-1).amax(-1, keepdim=True) * 2


def rounded(t: Tensors) -> Tensor:
    """Shares of sixteen bits, compared as such."""
    share = t["x"].softmax(1).to(torch.bfloat16)
    return torch.where(share == share.amax(1, keepdim=True), t["x"], 0)


def of_an_image(t: Tensors) -> Tensor:
    """Along two axes; a sigmoid and a shift of each row's own behind the softmax."""
    x = t["x"].view(t["x"].shape[0], 3, -1)
    share = (x - x.amax((1, 2), keepdim=True)).exp()
    return torch.sigmoid(share * 3 + t["shift"][:, :1, None]).amax((1, 2))


def tensors() -> Tensors:
    torch.manual_seed(0)
    return {"x": torch.randn(5, 36), "shift": torch.randn(5, 4)}


@pytest.mark.many(5)
@pytest.mark.parametrize("call", [sure, logarithms, rounded, of_an_image])
def test_the_largest_is_the_same(call: Call) -> None:
    given = tensors()
    problem = problem_of(call, given)
    assert "known_largest" in applying(problem)
    for on in ("on", "off"):
        source = generate(problem, (("known_largest", on), ("threads_per_row", "warp"))).kernel.source
        check(call, source, given, "checked")


def test_there_is_a_walk_less() -> None:
    problem = problem_of(sure, tensors())
    on, off = (generate(problem, (("known_largest", word),)).kernel.source for word in ("on", "off"))
    assert on.count("for (int col") + 1 == off.count("for (int col")


@pytest.mark.parametrize("what", ["nan", "inf", "-inf", "none left"])
def test_rows_with_special_numbers(what: str) -> None:
    given = tensors()
    row = slice(None) if what == "none left" else slice(3, 4)
    given["x"][2, row] = float("-inf" if what == "none left" else what)
    found = run(generate(problem_of(sure, given), ()).kernel.source, given)
    for got, want in zip(found.outputs, sure(given), strict=True):
        assert got.dtype == want.dtype
        assert torch.allclose(got.float(), want.float(), rtol=1e-5, equal_nan=True)


def places(t: Tensors) -> tuple[Tensor, Tensor]:
    """Two elements may come to the same share, and then the first of them is named."""
    best = t["x"].softmax(1).max(1)
    return best.values, best.indices


def falling(t: Tensors) -> Tensor:
    """The largest of what falls is that of the smallest element."""
    return (1 - t["x"].softmax(1)).amax(1) + (t["x"].softmax(1) * -2).amax(1)


def unknown_factor(t: Tensors) -> Tensor:
    """It may be negative."""
    return (t["x"].softmax(1) * t["shift"][:, :1]).amax(1)


def wraps(t: Tensors) -> Tensor:
    """A conversion to eight bits gives 44 of 300."""
    return (t["x"].softmax(1) * 700).to(torch.uint8).amax(1)


def other_axis(t: Tensors) -> Tensor:
    return t["x"].softmax(1).amax(0)


@pytest.mark.many(5)
@pytest.mark.parametrize("call", [places, falling, unknown_factor, wraps, other_axis])
def test_what_is_left_alone(call: Call) -> None:
    given = tensors()
    problem = problem_of(call, given)
    assert "known_largest" not in applying(problem)
    check(call, generate(problem, ()).kernel.source, given)
