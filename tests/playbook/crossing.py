"""Two lists of parameters crossed: all pairs in a sweep, in a suite each of them at least once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def crossed(ones: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """Every pair; those beside a walk that meets each of both lists belong to the sweep."""
    first, second = list(ones), list(others)
    count = max(len(first), len(second))
    met = {(step % len(first), step % len(second)) for step in range(count)}
    return [
        pytest.param(one, other, marks=() if (i, j) in met else pytest.mark.sweep)
        for i, one in enumerate(first)
        for j, other in enumerate(second)
    ]
