"""Calls of torch that take far longer than the bytes they move: what an H100 was seen to take for them.

Owns those times beyond a call's bytes and its launch, for whoever models eager, torch.compile or a plan that
leaves a call to the library. Fitted by hand to benchmarks/receipts/2026-11-28-h100-slow-calls.json:
0.5 to 1.15 of what was seen; what solving takes to 2026-11-30-h200-library-solves.json, sorts and medians to
2026-11-30-h200-slow-calls.json.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

TOPK = "topk"
_AXIS_AT = {TOPK: 2, "sort": 1, "median": 1, "nanmedian": 1, "kthvalue": 2}
ORDERED = frozenset(_AXIS_AT)
"""Calls that put rows in order, or look for what they would have in some place then, by ATen name."""
_SORTED_US = 35.0
_SORTED_NS = {32: 0.05, 512: 0.09, 4096: 0.034}
"""Of an element that is sorted, by how long its row is at most: 262144 rows of 64 take 1536 us, 4096 of 1024
155, one of 1048576 106."""
_LONGER_NS = 0.07
_FOUND_US, _FOUND_ROW_NS, _FOUND_NS = 12.0, 0.5, 0.025
"""Of a median, for its row and for each element of it: 262144 rows of 64 take 539 us, 1024 of 16384 326."""
_ALONE_NS = 3.0
"""One block goes along a row several times: one row of 1048576 takes 3300 us."""
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

_STEP_US, _STAYING, _TOGETHER = 6.5, 3, 8
"""Of a step of one layer in one direction: six layers of 256 units take 512 steps of ten rows in 18 to 23 ms
on an H200, LSTM or GRU, in both directions twice that. Two layers of 128 units of a GRU take 100 steps of 64
rows in 258 us, two plain ones of 256 units 256 steps of 16 in 1000: three tenths, or less
(2026-12-01-h200-recurrent-words.json and -fences.json)."""

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


_MOST_FEW, _OF_FEW, _OF_FEW_EACH = 16, 8.0, 28.0
"""Rows that are few, and how much more arithmetic than there is cuBLAS's kernels for them have time for in
float32: 4, 8 and 16 rows times 4096 x 4096 take 28, 45 and 94 us on an H200, times 1024 x 4096 19, 40 and 87,
times 32000 x 4096 188, 252 and 277 (2026-11-30). Of a batch, fitted to one number: 32 times four rows times
8192 x 128 take 115 us."""


def of_few_rows(rows: int, batched: bool) -> float:
    """How many times its arithmetic a product of so many rows takes a library; 1 where rows are many."""
    if not 1 < rows <= _MOST_FEW:
        return 1.0
    return _OF_FEW_EACH if batched else _OF_FEW


def solving_us(name: str, matrices: float, rows: int) -> float:
    """Of a call that solves systems of so many rows."""
    always, a_row = SOLVING[name]
    return always + 1e-3 * a_row * matrices * rows


def recurrent_steps(name: str, shape: Sequence[int], args: Sequence[object]) -> int:
    """Steps of all layers of a call of ``RECURRENT``, as many as cuDNN's slower way would do in its time.

    ``shape`` is the input's, ``args`` are the call's own. GRUs and plain layers whose batch is a multiple of
    eight are one kernel that stays on the card.
    """
    layers, both_ways, batch_first = args[4], args[7], args[8]
    assert isinstance(layers, int)
    batch, length = (shape[0], shape[1]) if batch_first else (shape[1], shape[0])
    steps = length * layers * (2 if both_ways else 1)
    return -(-steps * _STAYING // 10) if name != "lstm" and batch % _TOGETHER == 0 else steps


def recurrent_us(steps: float) -> float:
    """Of so many steps of recurrent layers."""
    return _STEP_US * steps


def ordered_rows(
    op: str, shape: Sequence[int], args: Sequence[object], named: Mapping[str, Any]
) -> tuple[float, int]:
    """How many rows a call of ``ORDERED`` puts in order, and how long they are.

    ``op`` is its full ATen name, ``shape`` that of its first operand.
    """
    count, position = math.prod(shape), _AXIS_AT[op.split(".")[1]]
    axis = args[position] if len(args) > position else named.get("dim", -1)
    if not shape or op.endswith("median.default") or not isinstance(axis, int):
        return 1.0, max(count, 1)
    return count / max(shape[axis], 1), shape[axis]


def ordering_us(name: str, rows: float, row: int) -> float:
    """Of a call of ``ORDERED`` beyond its bytes."""
    if name == TOPK:
        return topk_us(rows, row)
    if name == "sort":
        return _SORTED_US + 1e-3 * rows * row * _of_length(row)
    return _FOUND_US + 1e-3 * max(rows * (_FOUND_ROW_NS + _FOUND_NS * row), _ALONE_NS * row)


def _of_length(row: int) -> float:
    return next((ns for most, ns in _SORTED_NS.items() if row <= most), _LONGER_NS)


def topk_us(rows: float, row: int) -> float:
    """Of ``rows`` rows of ``row`` elements, whatever k."""
    if row > LONG_ROW:
        return _TOGETHER_US + 1e-3 * _ELEMENT_NS * rows * row
    return _FIRST_US + 1e-3 * (_FIRST_NS * row + rows * _ROW_NS * math.pow(row, _POWER))
