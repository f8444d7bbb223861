"""Vectors that a search may start from where a kernel can go through recurrent layers.

Owns what the kernels before and behind them do; seeds.py chooses among these and others.
"""

from __future__ import annotations

import itertools

from workbench.model import Problem, Vector
from workbench.playbook.kernels.recurrent_tiling import UNITS
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

_PRODUCTS = ("library", "each")


def recurrent_seeds(problem: Problem) -> list[Vector]:
    """So many units a warp, with products behind in either way."""
    if not traits_of(problem).recurrent:
        return []
    found = [settled(problem, _vector(*one)) for one in itertools.product(map(str, UNITS), _PRODUCTS)]
    return list(dict.fromkeys(found))


def _vector(units: str, products: str) -> Vector:
    return (
        ("block_size", "256"),
        ("matrix_product", products),
        ("recurrent_layers", units),
        ("split_k", "each"),
        ("vector_width", "4"),
    )
