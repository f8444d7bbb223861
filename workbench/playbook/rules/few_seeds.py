"""Vectors that a search may start from where few rows meet many.

Owns which numbers are tried, and what kernels beside them do; seeds.py chooses among these and others.
"""

from __future__ import annotations

import itertools

from workbench.model import H100, Problem, Vector
from workbench.playbook.kernels.few_tiling import AT_A_TIME, SPLITS
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

_BESIDE = (("warp", "off"), ("block", "off"), ("block", "on"))
"""Who has rows of kernels before and behind, of norms and softmaxes; whether blocks share a row."""
_THREADS, _WIDTHS, _DEEP = ("256", "128"), ("4", "8"), ("1", "2")
_USUAL = ("4", "1", "256", "4", "1")
"""Rows, blocks, threads, elements of a vector, steps: while the teams beside are chosen."""
_MOST = 6
_Numbers = tuple[str, str, str, str, str]


def few_seeds(problem: Problem) -> list[Vector]:
    """The best by prediction of all numbers of rows and blocks, with the teams best for other rows."""
    traits = traits_of(problem)
    if not traits.few:
        return []

    def us(vector: Vector) -> float:
        return mean_us(problem, vector, H100)

    beside = _BESIDE if len(traits.rows) > len(traits.few) else _BESIDE[:1]
    others = min(beside, key=lambda one: us(settled(problem, _vector(_USUAL, *one))))
    tried = itertools.product(map(str, AT_A_TIME), map(str, SPLITS), _THREADS, _WIDTHS, _DEEP)
    found = dict.fromkeys(settled(problem, _vector(numbers, *others)) for numbers in tried)
    return sorted(found, key=us)[:_MOST]


def _vector(numbers: _Numbers, team: str, shared: str) -> Vector:
    rows, split, threads, width, deep = numbers
    return (
        ("block_size", threads),
        ("columns_by", "bundle"),
        ("few_rows", rows),
        ("few_split", split),
        ("grid_split", shared),
        ("loads_in_flight", deep),
        ("matrix_product", "each"),
        ("reciprocal", "on"),
        ("single_pass", shared),
        ("split_join", "last"),
        ("split_k", "each"),
        ("threads_per_row", team),
        ("vector_width", width),
    )
