"""Losses that sum what needs a row's own reductions, over all rows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from workbench.plan.facts import facts
from workbench.playbook.generate import generate


@pytest.mark.many(3)
@pytest.mark.parametrize(
    "call",
    [
        lambda t: (torch.log_softmax(t["x"], 2) * t["y"].softmax(2)).sum(),
        lambda t: (t["y"] * torch.softmax(t["x"], 2)).sum((1, 2)),
        lambda t: (t["y"] - torch.softmax(t["x"], 2)).abs().amax(),
    ],
)
def test_a_loss_over_rows_is_summed_row_by_row(call: Call) -> None:
    """The inputs are read once, by the kernel that has the row's maximum and sum at hand."""
    tensors = {"x": torch.randn(3, 6, 9), "y": torch.randn(3, 6, 9)}
    source = generate(problem_of(call, tensors), ()).kernel.source
    known = facts(plan_of(source, tensors), "loss")
    assert (known.launches, known.workspace_bytes) == (2, 3 * 6 * 4)
    check(call, source, tensors)


def test_the_logarithm_of_a_softmax_takes_none_an_element() -> None:
    """log(exp(a) / b) is a - log(b), and a reciprocal a row is enough; what underflows counts as nothing.

    So it is where the row's statistics stay in the sum too.
    """

    def divergence(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.nn.functional.kl_div(t["x"].log_softmax(1), t["y"].softmax(1), reduction="batchmean")

    far = torch.randn(6, 36) * 100.0
    tensors = {"x": torch.randn(6, 36), "y": far}
    for vector, inverse in (((), "(1.0f / "), ((("taken_out", "off"),), "const float inverse = 1.0f / ")):
        source = generate(problem_of(divergence, tensors), vector).kernel.source
        assert source.count("logf(") == 2 and source.count("1.0f / ") == 1 and inverse in source
        check(divergence, source, tensors)


@pytest.mark.many(11)
@pytest.mark.parametrize(
    "options", [{}, {"full": True, "reduction": "sum"}, {"eps": 0.5, "reduction": "none"}]
)
@pytest.mark.parametrize("spread", [(6, 9), (6, 1), (6,)])
def test_a_loss_that_torch_checks_by_values_is_traced_without_the_check(
    options: dict[str, object], spread: tuple[int, ...]
) -> None:
    tensors = {"x": torch.randn(6, 9), "y": torch.randn(6, 9), "v": torch.rand(spread)}

    def loss(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.nn.functional.gaussian_nll_loss(t["x"], t["y"], t["v"], **options)  # type: ignore[arg-type]

    check(loss, generate(problem_of(loss, tensors), ()).kernel.source, tensors)


@pytest.mark.many(6)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("rows", [slice(None), 4])
def test_of_several_labels_those_up_to_the_first_minus_one_count(rows: slice | int, reduction: str) -> None:
    """And what is not a number is not closer to one, as in eager."""

    def loss(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.nn.functional.multilabel_margin_loss(t["x"], t["y"], reduction=reduction)

    x, labels = torch.randn(6, 5), torch.randint(0, 5, (6, 5))
    x[3, 3], x[0, 1] = torch.nan, torch.inf
    labels[1, 2] = labels[2, 0] = labels[4, 1] = labels[4, 3] = -1
    tensors = {"x": x[rows], "y": labels[rows]}
    check(loss, generate(problem_of(loss, tensors), ()).kernel.source, tensors)


def test_a_logarithm_of_both_sides_is_computed_once() -> None:
    """log(sigmoid(x)) and log(sigmoid(-x)): the absolute value of -x is that of x."""

    def both(t: dict[str, Tensor]) -> Tensor:
        return F.logsigmoid(t["x"]) * t["y"] + F.logsigmoid(-t["x"]) * (1 - t["y"])

    tensors = {"x": torch.randn(6, 40), "y": torch.rand(6, 40)}
    source = generate(problem_of(both, tensors), ()).kernel.source
    assert source.count("log1pf(") == 1
    check(both, source, tensors)
