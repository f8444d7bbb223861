"""How far off a sum may be when its terms are alike: equal ones err alike, few different ones almost so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.numerics import movement, reductions
from workbench.numerics.pointwise import pointwise
from workbench.numerics.tracked import exact

TERMS, ROWS = 4096, 200


def sequential(terms: Tensor) -> Tensor:
    """One float32 after the other."""
    return torch.from_numpy(np.add.accumulate(terms.numpy(), axis=1)[:, -1].astype(np.float64))


def few_valued(seed: int) -> Tensor:
    """Squares of what is left of halves without their mean: some seventeen values, none of them exact."""
    rows = (torch.randn(ROWS, TERMS, generator=torch.Generator().manual_seed(seed)) * 2).round() / 2
    return (rows - rows.mean(dim=1, keepdim=True)).square()


def over(terms: Tensor) -> Tensor:
    """Error of sequential summation as part of what is allowed."""
    found = reductions.total(exact(terms, "f32"), 1, False, "f32")
    return (sequential(terms) - found.value).abs() / found.error


def test_terms_of_few_values_in_any_order_err_more_than_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = few_valued(1)
    assert over(terms).max() < 1.0
    monkeypatch.setattr(reductions, "_one_sided", lambda *_: 0.0)
    assert over(terms).max() < 1.0
    monkeypatch.setattr(reductions, "_repeated", reductions._equal_share)
    assert over(terms).max() > 1.0  # what an honest kernel was turned away for


def test_terms_that_all_differ_are_allowed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = torch.linspace(0.1, 0.9, ROWS * TERMS).view(TERMS, ROWS).T.contiguous()
    allowed = reductions.total(exact(terms, "f32"), 1, False, "f32").error
    monkeypatch.setattr(reductions, "_repeated", reductions._equal_share)
    assert torch.equal(allowed, reductions.total(exact(terms, "f32"), 1, False, "f32").error)


@pytest.mark.parametrize(("values", "share"), [(1, 1.0), (2, 0.5**0.5), (16, 0.25)])
def test_the_share_is_the_root_of_the_sum_of_squared_parts(values: int, share: float) -> None:
    terms = torch.randint(1, values + 1, (40, 128, 6), generator=torch.Generator().manual_seed(3)).double()
    found = reductions._repeated(terms, [0, 1], keepdim=True)
    assert found.shape == (1, 1, 6) and torch.allclose(found, torch.tensor(share).double(), rtol=0.1)
    assert not reductions._repeated(torch.zeros(2, 128), [1], keepdim=False).any()
    assert not reductions._repeated(torch.ones(2, 64), [1], keepdim=False).any()  # few terms: no need


def test_running_products_of_whole_numbers_are_exact() -> None:
    found = reductions.scan_product(exact(torch.tensor([[3, 1, 0, 5]]), "i64"), 1, "i64")
    assert found.is_exact and found.value.tolist() == [[3, 3, 0, 0]]


def test_a_running_product_is_anything_where_a_part_of_it_overflows() -> None:
    """1e-30 * 1e-30 * 1e30 * 1e30 is 1 in one order and 0 times infinity in another."""
    factors = torch.tensor([[1e-30, 1e-10, 1e30, 1e30, 2.0]])
    found = reductions.scan_product(exact(factors, "f32"), 1, "f32")
    assert found.error.isinf().tolist() == [[False, False, False, True, True]]


def test_sums_into_places_are_as_exact_as_their_terms() -> None:
    """A large sum beside a small one says nothing about the small one."""
    into, index = exact(torch.zeros(2), "f32"), exact(torch.tensor([0, 0, 1]), "i64")
    terms = exact(torch.tensor([1e6, 3e5 + 0.1, 0.3]), "f32")
    found = reductions.scattered(torch.ops.aten.scatter_add.default, [into, 0, index, terms], 3, True, "f32")
    large, small = found.error.tolist()
    assert 0.01 < large < 10 and 0 < small < 1e-5


def test_of_values_that_are_put_at_one_place_any_one_may_stay() -> None:
    """Torch says so itself, and on a GPU it is another one each time."""
    into, places = exact(torch.zeros(5), "f32"), exact(torch.tensor([3, 0, 3, 1, 1, 3]), "i64")
    rows = exact(torch.tensor([1.0, 2.0, 5.0, 4.0, 4.0, 3.0]), "f32")
    for args, data in ([into, [places], rows], 2), ([into, 0, places, rows], 3):
        apart = reductions.left_open(args, data)
        assert apart is not None and apart.tolist() == [0, 0, 0, 4, 0], "from 1 to 5"
    assert reductions.left_open([into, 0, exact(torch.arange(5), "i64"), rows], 3) is None
    assert reductions.left_open([into, 0, places, 2.0], 3) is None


def test_a_number_among_infinities_at_one_place_leaves_everything_open() -> None:
    into, places = exact(torch.zeros(2, 3), "f32"), exact(torch.tensor([1, 1]), "i64")
    rows = exact(torch.tensor([[torch.inf, torch.nan, torch.inf], [torch.inf, 2.0, 3.0]]), "f32")
    apart = reductions.left_open([into, [places], rows], 2)
    assert apart is not None and apart.tolist() == [[0.0, 0.0, 0.0], [0.0, torch.inf, torch.inf]]


def test_a_count_is_off_by_whole_elements_and_is_rounded_beside_that() -> None:
    """Two comparisons in doubt are two; errors by rounding would be 1.4, and 1 as a whole number."""
    near = replace(
        exact(torch.tensor([[0.0, 0.0, 5.0], [0.0, 5.0, 5.0]]), "bf16"),
        independent=torch.full((2, 3), 0.1, dtype=torch.float64),
    )
    over = pointwise("gt", torch.ops.aten.gt.Scalar, [near, 0.0], {}, "bool")
    count = reductions.total(over, 1, False, "i64")
    assert count.error.tolist() == [2.0, 1.0]
    stored = movement.cast(count, "bf16")
    scaled = pointwise("mul", torch.ops.aten.mul.Tensor, [stored, 1.3], {}, "bf16")
    assert float(scaled.error[1]) >= 1.3 + 2.6 * 2.0**-9


def nearly_equal(seed: int) -> Tensor:
    """Terms that differ by less than what their sum rounds to: 93 and some millionths of it."""
    drawn = torch.rand(ROWS, TERMS, generator=torch.Generator().manual_seed(seed))
    return 93 * (1 + torch.linspace(0, 1, ROWS)[:, None]) * (1 + 1e-6 * drawn)


def test_terms_that_differ_by_less_than_their_sum_rounds_to_err_to_one_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terms = nearly_equal(3)
    assert over(terms).max() < 1.0
    monkeypatch.setattr(reductions, "_one_sided", lambda *_: 0.0)
    assert over(terms).max() > 1.0  # what an honest kernel was turned away for


@pytest.mark.parametrize("shape", [(64, 2048), (16, 65536)])
def test_terms_that_round_to_both_sides_are_allowed_no_more(shape: tuple[int, int]) -> None:
    drawn = torch.Generator().manual_seed(4)
    for terms in (torch.rand(shape, generator=drawn), torch.randn(shape, generator=drawn) + 3):
        whole = terms.double().sum(1)
        assert (reductions._one_sided(terms.double(), whole, [1], False) * 2**23 < 0.1 * whole).all()
        assert (reductions._one_sided(terms.double(), whole, [1], False) == 0).float().mean() > 0.98
