"""Errors counted in units of the last place."""

from __future__ import annotations

import torch

from workbench.model import ULP_EDGES
from workbench.numerics.compare import ulp_histogram


def counted(off: list[float], expected: list[float], dtype: torch.dtype = torch.float32) -> dict[float, int]:
    made = ulp_histogram(torch.tensor(off), torch.tensor(expected, dtype=torch.float64), dtype)
    assert len(made) == len(ULP_EDGES) + 1
    return {edge: n for edge, n in zip((*ULP_EDGES, float("inf")), made, strict=True) if n}


def test_a_unit_is_the_gap_to_the_next_number() -> None:
    for value in (1.0, 1.999, 3.0, 1e-20, 1e20):
        at = torch.tensor(value)
        gap = float(torch.nextafter(at, torch.tensor(torch.inf)) - at)
        assert counted([0.0, gap / 2, gap, 3 * gap], [float(at)] * 4) == {0.0: 1, 0.5: 1, 1.0: 1, 4.0: 1}


def test_half_precision_has_larger_units() -> None:
    assert counted([2**-10], [1.0], torch.float16) == {1.0: 1}
    assert counted([2**-10], [1.0], torch.bfloat16) == {0.5: 1}


def test_nan_and_infinity_count_as_beyond_everything_and_zero_has_a_unit() -> None:
    assert counted([torch.inf, torch.nan, 0.0], [1.0, 1.0, 0.0]) == {float("inf"): 2, 0.0: 1}


def test_integers_have_none() -> None:
    assert ulp_histogram(torch.zeros(3), torch.zeros(3), torch.int64) == ()
