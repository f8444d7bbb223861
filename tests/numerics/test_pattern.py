from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from workbench.numerics.pattern import describe

SIZE = 64


def tail_columns(x: Tensor) -> None:
    x[:, -3:] = 5.0 + torch.rand(SIZE, 3)


def last_column(x: Tensor) -> None:
    x[:, -1] = 9 + torch.rand(SIZE)


def every_32nd(x: Tensor) -> None:
    x[:, ::16] = 3.0 + torch.rand(SIZE, 4)


def rows_after(x: Tensor) -> None:
    x[40:] = 3.0 + torch.rand(24, SIZE)


def last_row(x: Tensor) -> None:
    x[-1] = torch.nan


def all_zero(x: Tensor) -> None:
    x[:] = 0.0


def halved(x: Tensor) -> None:
    x *= 0.5


def moved(x: Tensor) -> None:
    x += 2.0


def transposed(x: Tensor) -> None:
    x.copy_(x.t().clone())


def repeated(x: Tensor) -> None:
    x.copy_(x[:1].clone().expand(SIZE, SIZE))


def shifted(x: Tensor) -> None:
    x.copy_(x.roll(1, -1).clone())


def last_elements(x: Tensor) -> None:
    x.view(-1)[-70:] = 7 + torch.rand(70)


def one_nan(x: Tensor) -> None:
    x[5, 6] = torch.nan


def scattered(x: Tensor) -> None:
    x += 3 * (torch.rand(SIZE, SIZE) < 0.5) * torch.rand(SIZE, SIZE)


CASES: list[tuple[Callable[[Tensor], None], str]] = [
    (tail_columns, "the last 3 columns, from column 61 on"),
    (last_column, "the last column"),
    (every_32nd, "every 16th column, from 0"),
    (rows_after, "the last 24 rows, from row 40 on"),
    (last_row, "NaN in the last row"),
    (all_zero, "zeros"),
    (halved, "0.5 times the right value"),
    (moved, "the right value plus 2"),
    (transposed, "the transposed result"),
    (repeated, "the first row, repeated"),
    (shifted, "the result shifted by one element"),
    (last_elements, "the last 70 elements"),
    (one_nan, "NaN in element (5, 6)"),
    (scattered, "elements, scattered"),
]


@pytest.mark.parametrize(("spoil", "words"), CASES, ids=[s.__name__ for s, _ in CASES])
def test_words(spoil: Callable[[Tensor], None], words: str) -> None:
    torch.manual_seed(0)
    expected = torch.randn(SIZE, SIZE)
    got = expected.clone()
    spoil(got)
    found = describe(got, expected, ~torch.isclose(got, expected, equal_nan=False))
    assert words in found, found


@pytest.mark.parametrize(
    ("factor", "words"),
    [(0.99998, "off by a factor of 0.99998"), (1.0004, "off by a factor of 1.0004"), (0.5, "0.5 times")],
)
def test_a_factor_near_one_has_the_digits_to_differ_from_it(factor: float, words: str) -> None:
    expected = torch.rand(64, 64, dtype=torch.float64) + 1
    assert words in describe(expected * factor, expected, torch.ones(64, 64, dtype=torch.bool))


def test_a_spread_around_the_right_value_is_no_factor() -> None:
    expected = torch.rand(64, 64, dtype=torch.float64) + 1
    got = expected * (1 + 5e-4 * torch.linspace(-1, 1, 64, dtype=torch.float64))
    assert "within 0.0005" in describe(got, expected, torch.ones(64, 64, dtype=torch.bool))


def test_a_vector_is_described_by_elements() -> None:
    expected = torch.randn(100, generator=torch.Generator().manual_seed(0))
    got = expected.clone()
    got[::32] += torch.rand(4) + 1
    assert describe(got, expected, got != expected) == "every 32nd element, from 0"
    got = expected.clone()
    got[96:] += torch.rand(4) + 1
    assert describe(got, expected, got != expected) == "the last 4 elements, from element 96 on"
