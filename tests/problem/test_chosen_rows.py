"""Rows that a mask chooses, and checks that only raise: what is traced gives what the reference gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.graphs import results_of
from workbench.errors import ProblemError
from workbench.problem.trace import trace

Reference = Callable[[Tensor, Tensor], Tensor | tuple[Tensor, ...]]


def put_back(x: Tensor, y: Tensor) -> Tensor:
    """Each part of a domain by its own formula, as it is written by hand."""
    out = torch.empty_like(x)
    high, low = x >= 1, x <= -1
    out[~high & ~low] = torch.acos(x[~high & ~low])
    out[high] = (x[high] - 1) * -3 + y[0, 0]
    out[low] = 2 * x[low].square()
    return out


def in_place(x: Tensor, y: Tensor) -> Tensor:
    out = x.clone()
    out[out > 0.5] *= 0.5
    out[out < -1] = out[out < -1] ** 2  # a mask of other values than before
    near = out.abs() < 0.2
    out[near] += y[near].sin()
    taken = out[near]
    out[near] = 7.0
    taken.mul_(2).add_(1)
    return out * taken.sum()


def totals(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    at = y > 0
    away = x[at].exp() - y[at].exp().log1p()
    each = away.sum(), away.mean(), away.var(), away.std(unbiased=False), away.max(), away.min()
    return *each, (away > 0).any(), (away > -9).all(), x[at].sum() / x[at].numel(), away.amax(0)


def rows(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Rows of several numbers: columns of them, what is along them, and sums over all of them."""
    at = y[:, 0] > 0
    some = x[at]
    share = F.layer_norm(some, (some.shape[-1],)).softmax(-1) @ y.T
    parts = share.sum(0), share[:, 1:3].mean(0), share.max(1).values.sum(), share[..., 0].sum() / len(some)
    out = x.clone()
    out[at] = F.normalize(some, dim=1)
    return *parts, out, F.linear(some, y, y[:, 0]).amax(0)


def parts_of_rows(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Rows taken apart and joined, and looked into by labels, of which those of other rows are none."""
    at = y[:, 0] > 0
    labels = torch.where(at, (y[:, 1].abs() * 2).long().clamp(max=5), -1)
    a, b = x[at].chunk(2, -1)
    joined = torch.cat([b, a * 2], dim=1)
    picked = joined.gather(1, labels[at].unsqueeze(1)).squeeze(1)
    counts = F.one_hot(labels[at], 6).sum(0)
    first, *_ = torch.stack([a, b], -1).unbind(1)
    return picked.mean(), counts, first.flatten(1).amax(0)


def losses(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    at = (y > -0.5) & (x < 2)
    labels = torch.where(y[:, 0] > 0.3, -100, (y[:, 0].abs() * 2).long().clamp(max=3))
    known = y[:, 1] > 0
    each = F.cross_entropy(x[known], labels[known]), F.cross_entropy(x[known], labels[known], reduction="sum")
    return (
        F.mse_loss(x[at], y[at]),
        F.smooth_l1_loss(x[at], y[at], reduction="sum"),
        F.l1_loss(torch.masked_select(x, at), torch.masked_select(y, at)),
        *each,
    )


def images(x: Tensor, y: Tensor) -> Tensor:
    """A mask of the first axes chooses all of what lies behind."""
    stack = torch.stack([x, y, x * y], -1)
    at = x > y
    stack[at] = stack[at] * torch.tensor([1.0, 2.0, 3.0], device=x.device) + 1
    return stack


def numbers(x: Tensor, y: Tensor) -> Tensor:
    count = (y > 0).sum().item()
    return x.sum(1) / count + x.max().item()


def places(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Where a mask holds: the box around it, its middle, and what lies there."""
    rows, columns = torch.where(x > 0)
    box = torch.stack([rows.min(), columns.min(), rows.max(), columns.max()])
    (some,) = (y[:, 0] > 0).nonzero(as_tuple=True)
    out = x.clone()
    out[rows, columns] = out[rows, columns] * 2 + columns
    out[some] -= 1
    return box, columns.float().mean(), y[rows, columns].sum(), x[some].mean(0), out


REFERENCES = [places, put_back, in_place, totals, rows, parts_of_rows, losses, images, numbers]


@pytest.mark.parametrize("varying", [True, False])
@pytest.mark.parametrize("call", REFERENCES)
def test_what_is_traced_gives_what_the_reference_gives(call: Reference, varying: bool) -> None:
    torch.manual_seed(3)
    given = {"x": torch.randn(9, 6), "y": torch.randn(9, 6)}
    traced = trace(lambda t: call(t["x"], t["y"]), given, varying=varying)
    wanted = call(given["x"], given["y"])
    made = results_of(traced.graph, given, dict(traced.sizes))
    for one, other in zip(made, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_where_none_is_chosen_there_is_no_mean() -> None:
    given = {"x": torch.randn(9, 6), "y": torch.full((9, 6), -1.0)}
    traced = trace(lambda t: t["x"][t["y"] > 0].mean(), given, varying=True)
    (made,) = results_of(traced.graph, given, dict(traced.sizes))
    assert made.isnan()


def returned(x: Tensor, y: Tensor) -> Tensor:
    return x[x > 0] * 2


def in_order(x: Tensor, y: Tensor) -> Tensor:
    return x[x > 0].sort().values[0]


def by_another_mask(x: Tensor, y: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    out[y > 0] = x[x > 0]
    return out


def by_a_mask_of_other_values(x: Tensor, y: Tensor) -> Tensor:
    """It looks the same, and is not: what it is made of has changed."""
    x = x.clone()
    taken = x[x > 0]
    x += 0.1
    x[x > 0] = taken
    return x


def half_of_the_places(x: Tensor, y: Tensor) -> Tensor:
    rows, _ = torch.where(x > 0)
    return y[rows].sum()


def written(x: Tensor, y: Tensor) -> Tensor:
    """Not lost in a copy: the rows are used afterwards."""
    some = x[y[:, 0] > 0]
    some[:, 0] = 0
    return some.sum()


def zeroed(x: Tensor, y: Tensor) -> Tensor:
    some = x[x > 0]
    some.index_fill_(0, torch.zeros(1, dtype=torch.int64), 0.5)
    return some.sum()


def divided(x: Tensor, y: Tensor) -> Tensor:
    """Where nothing is chosen, nobody divides by 0."""
    whole, by = (x * 9).long(), (y * 2).long()
    return (whole[by != 0] // by[by != 0]).sum()


@pytest.mark.parametrize(
    "call",
    [
        returned,
        in_order,
        by_another_mask,
        by_a_mask_of_other_values,
        divided,
        half_of_the_places,
        written,
        zeroed,
    ],
)
def test_where_their_number_counts_they_are_refused(call: Reference) -> None:
    given = {"x": torch.randn(9, 6), "y": torch.randn(9, 6)}
    with pytest.raises(ProblemError, match=r"line \d+: .*(values|torch.where)"):
        trace(lambda t: call(t["x"], t["y"]), given, varying=True)


# Text, as pytest writes other code for the assertions of tests.
ASSERTED = """
def asserted(x, y):
    assert (x < 100).all() and (y < 100).all(), f"too large: {x.shape}"
    assert torch.isfinite(x).all()
    return x + y
"""


def asserted() -> Reference:
    """As a cell is run."""
    names = {"torch": torch}
    exec(compile(ASSERTED, "<cell>", "exec"), names)
    return names["asserted"]  # type: ignore[return-value]


def raised(x: Tensor, y: Tensor) -> Tensor:
    if not (x < 100).all():
        raise ValueError("too large")
    if torch.isnan(x).any() or torch.isnan(y).any():
        raise ValueError(f"not a number among {x.shape}")
    return x + y


@pytest.mark.parametrize("call", [asserted(), raised])
def test_a_check_that_only_raises_is_left_out_and_told(call: Reference) -> None:
    given = {"x": torch.randn(9, 6), "y": torch.randn(9, 6)}
    traced = trace(lambda t: call(t["x"], t["y"]), given, varying=True)
    assert [node.base_name for node in traced.graph.nodes] == ["add"]
    first = call.__code__.co_firstlineno
    assert [note.split(":")[0] for note in traced.notes] == [
        f"line {first + at} raises where values are not as it wants" for at in (1, 3 if call is raised else 2)
    ]


def computed(x: Tensor, y: Tensor) -> Tensor:
    if (x > 0).any():
        x = x * 2
    return x + y


def given_back(x: Tensor, y: Tensor) -> Tensor:
    if (x > 0).any():
        return y
    raise ValueError


def before_it_raises(x: Tensor, y: Tensor) -> Tensor:
    if (x > 0).any():
        y = y * 2
        raise ValueError(f"{y}")
    return x + y


@pytest.mark.parametrize("call", [computed, before_it_raises])
def test_a_branch_that_computes_is_refused(call: Reference) -> None:
    given = {"x": torch.randn(9, 6), "y": torch.randn(9, 6)}
    with pytest.raises(ProblemError, match=r"line \d+: .*torch.where"):
        trace(lambda t: call(t["x"], t["y"]), given, varying=True)


def test_what_is_left_may_be_a_branch() -> None:
    given = {"x": torch.randn(9, 6), "y": torch.randn(9, 6)}
    traced = trace(lambda t: given_back(t["x"], t["y"]) * 2, given, varying=True)
    assert [node.base_name for node in traced.graph.nodes] == ["mul"]
