from __future__ import annotations

import pytest
import torch
from torch import Tensor

from workbench.model import Difference
from workbench.numerics import compare as comparing
from workbench.numerics.bounds import OutputBound
from workbench.numerics.compare import compare

ROWS, COLUMNS = 64, 96


def bound(expected: Tensor, allowed: float = 1e-3) -> OutputBound:
    return OutputBound("f32", expected.double(), torch.full(expected.shape, allowed).double(), None, "test")


@pytest.fixture
def expected() -> Tensor:
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))


def test_within_the_bound_passes_with_its_ratio(expected: Tensor) -> None:
    difference = compare(expected + 0.0005, bound(expected))
    assert 0.4 < difference.max_ratio < 0.6
    assert difference.wrong_fraction == 0
    assert difference.worst == ()
    assert difference.pattern == ""
    assert difference.heatmap == ()


def test_one_wrong_element_is_found_and_named(expected: Tensor) -> None:
    got = expected.clone()
    got[3, 7] += 1
    difference = compare(got, bound(expected))
    assert 900 < difference.max_ratio < 1100
    assert difference.worst[0].index == (3, 7)
    assert difference.worst[0].got == pytest.approx(float(got[3, 7]))
    assert len(difference.worst) == 1
    assert difference.wrong_fraction == pytest.approx(1 / (ROWS * COLUMNS))
    assert len(difference.heatmap) == 32
    assert difference.heatmap[1][7 * 32 // COLUMNS] > 900
    assert difference.heatmap[2][7 * 32 // COLUMNS] < 1


def test_chunks_give_the_same_answer(expected: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    got = expected + 0.002 * torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(1))
    whole = compare(got, bound(expected))
    monkeypatch.setattr(comparing, "CHUNK", 100)
    assert compare(got, bound(expected)) == whole


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_positions_of_nan_and_inf_must_match(expected: Tensor, value: float) -> None:
    expected[2, 5] = value
    assert compare(expected.clone(), bound(expected)).max_ratio == 0
    filled = expected.clone()
    filled[2, 5] = 0.0
    assert compare(filled, bound(expected)).max_ratio > 1
    stray = expected.clone()
    stray[0, 0] = value
    difference = compare(stray, bound(expected))
    assert difference.max_ratio > 1
    assert difference.worst[0].index == (0, 0)
    swapped = expected.clone()
    swapped[2, 5] = -torch.inf if value == torch.inf else torch.inf
    assert compare(swapped, bound(expected)).max_ratio > 1


def test_infinity_is_right_where_the_dtype_ends() -> None:
    expected = torch.tensor([1.0, 3.5e38, -3.5e38], dtype=torch.float64)
    limit = OutputBound("f32", expected, torch.full((3,), 1e30).double(), None, "test")
    assert compare(torch.tensor([1.0, torch.inf, -torch.inf]), limit).max_ratio <= 1
    assert compare(torch.tensor([1.0, -torch.inf, -torch.inf]), limit).max_ratio > 1
    assert compare(torch.tensor([torch.inf, torch.inf, -torch.inf]), limit).max_ratio > 1


def test_integers_and_bools_are_exact() -> None:
    expected = torch.tensor([1, 2, 3])
    exact = OutputBound("i64", expected, torch.zeros(3).double(), None, "test")
    assert compare(torch.tensor([1, 2, 3]), exact).max_ratio == 0
    assert compare(torch.tensor([1, 2, 4]), exact).max_ratio > 1
    flags = OutputBound("bool", torch.tensor([True, False]), torch.zeros(2).double(), None, "test")
    assert compare(torch.tensor([True, True]), flags).max_ratio > 1


def test_empty_and_scalar_outputs() -> None:
    assert compare(torch.empty(0, 3), bound(torch.empty(0, 3))).max_ratio == 0
    assert compare(torch.tensor(2.0), bound(torch.tensor(1.0))).worst[0].index == ()


def test_a_difference_survives_the_journal(expected: Tensor) -> None:
    got = expected.clone()
    got[0] = torch.nan
    difference = compare(got, bound(expected))
    again = Difference.model_validate_json(difference.model_dump_json())
    assert again.model_dump_json() == difference.model_dump_json()
