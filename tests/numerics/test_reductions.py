"""How far off a sum may be when its terms are alike: equal ones err alike, few different ones almost so."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.numerics import reductions
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
