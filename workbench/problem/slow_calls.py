"""Calls of torch that take far longer than the bytes they move: what an H100 was seen to take for them.

Owns those times beyond a call's bytes and its launch, for whoever models eager, torch.compile or a plan that
leaves a call to the library. Fitted by hand to benchmarks/receipts/2026-11-28-h100-slow-calls.json:
0.5 to 1.15 of what was seen; what solving takes to 2026-11-30-h200-library-solves.json.
"""

from __future__ import annotations

import math

TOPK = "topk"
LONG_ROW = 4096
"""Elements from which several blocks share a row of topk."""
_ROW_NS, _POWER = 0.19, 0.72
"""Of a row that one block looks through, by its length: 16384 rows of 64, 256, 1024, 2048 take 65, 208, 534,
731 us."""
_FIRST_US, _FIRST_NS = 8.0, 6.0
"""And however few there are, by their length: 64 rows of 2048 take 24 us."""
_TOGETHER_US, _ELEMENT_NS = 80.0, 0.0125
"""Of rows that blocks share: (64, 50257) takes 134 us, (8, 128256) 136, (1, 1048576) 134, (4096, 32000)
1658; an hour earlier 104, 94, 129, 1654."""
_DISTANCE_NS = 1.25
"""A distance, each a block of its own: 4800 points from 256 others take 1514 to 1545 us with 4 to 64 numbers
each, p = 1; 2048 from 2048 with p = 3 6058."""
TAKEN_APART = {"_cdist_forward": _DISTANCE_NS}
"""Calls that a problem's graph has taken apart, and torch.compile leaves whole; nanoseconds a result."""

SOLVING = {
    "linalg_inv_ex": (70.0, 0.35),
    "_linalg_det": (90.0, 0.02),
    "_linalg_slogdet": (110.0, 0.02),
    "_linalg_solve_ex": (60.0, 0.2),
    "linalg_cholesky_ex": (30.0, 0.4),
    "cholesky_solve": (45.0, 2.1),
    "linalg_solve_triangular": (30.0, 0.08),
}
"""Microseconds of a call that solves small systems, however few: launches, one after the other, and what the
host does between. Nanoseconds a row of a matrix, where they are many: 262144 inverses of three rows take
398 us, as many solutions by a factor of four rows 2473."""
SOLVING["cholesky_inverse"] = SOLVING["cholesky_solve"]  # not measured: two triangles as well

_BLOCK_NS, _TERM_US = 1.5, 0.03
"""Of a product of many small matrices, whose results are one tile each: for every block, and for every term
of the sums that a block goes along. torch.compile's 2444, 2919 and 2450 us for the three products of 500,000
matrices in twist_compose and in splat_covariance, and for 16 of 65,536 terms in icp_normal_equations, are
hardly anything else (H200)."""
_TILE, _AT_ONCE = 64, 4 * 132
"""Rows and columns of a tile, and blocks that run at a time."""


def batched_us(batch: int, rows: int, columns: int, terms: int, element_bytes: int) -> float:
    """Of a library's product of a batch of matrices, at least."""
    blocks = batch * math.ceil(rows / _TILE) * math.ceil(columns / _TILE)
    along = math.ceil(blocks / _AT_ONCE) * _TERM_US * terms if element_bytes == 4 else 0.0
    return max(1e-3 * _BLOCK_NS * blocks, along)


def solving_us(name: str, matrices: float, rows: int) -> float:
    """Of a call that solves systems of so many rows."""
    always, a_row = SOLVING[name]
    return always + 1e-3 * a_row * matrices * rows


def topk_us(rows: float, row: int) -> float:
    """Of ``rows`` rows of ``row`` elements, whatever k."""
    if row > LONG_ROW:
        return _TOGETHER_US + 1e-3 * _ELEMENT_NS * rows * row
    return _FIRST_US + 1e-3 * (_FIRST_NS * row + rows * _ROW_NS * math.pow(row, _POWER))
