"""What an expression costs a thread: instructions, and cycles of the chain that a reduction makes of them.

Owns two small tables. The figures are those of compiled code: an accurate exp is a multiplication, a range
reduction and one of the special function unit; an accurate division is a reciprocal with two corrections.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from workbench.model import DType
from workbench.playbook.analysis.co_moments import MOMENTS
from workbench.playbook.analysis.lifetime import CLOCK_GHZ
from workbench.playbook.ir.expr import Apply, Expr, unguarded, walk, walk_all

_CHEAP, _MEDIUM, _LONG = 1.0, 10.0, 24.0
_INSTRUCTIONS = {
    **dict.fromkeys(["exp", "exp2"], 8.0),
    **dict.fromkeys(["div", "sqrt", "rsqrt", "log", "log2", "log10"], _MEDIUM),
    **{"quotient": 7.0, "over": 5.0, "over_shared": 5.0, "usual_scale": 5.0},
    **dict.fromkeys(["expm1", "log1p", "tan", "asin", "acos", "atan", "atan2"], _LONG),
    **dict.fromkeys(["sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv"], _LONG),
    **dict.fromkeys(["lgamma", "hypot", "fmod", "remainder", "floordiv"], _LONG),
    **dict.fromkeys(["erfcx", "normcdfinv", "erf_of_16_bits"], _LONG),
    **{"sin": 30.0, "cos": 30.0, "pow": 60.0},
}
"""Sines, cosines and powers as counted in machine code (sm_90a, NVRTC 13.0), along the way that usual
arguments take: of 105,615 radians and more a cosine takes some 120 instructions beyond; a power of a number
that the compiler knows is 55, of any other 75."""
_FAST = {
    "exp": 3.0, "div": 3.0, "log": 3.0, "sin": 3.0, "cos": 3.0, "pow": 6.0, "erf_of_16_bits": 15.0
}  # fmt: skip
_ACCUMULATED = {
    "softmax": (18.0, 80.0),
    "logsum": (20.0, 80.0),
    "welford": (30.0, 190.0),
    "argmax": (12.0, 120.0),
    "argmin": (12.0, 120.0),
}
"""Instructions to take one more element in, and cycles until the next may follow. Softmax: as old receipts
have it; one exponential, of the distance from the maximum, and what it scales, counted from the source.
Until it had a branch with two exponentials where the maximum grows, 30 and 160 fitted what was measured.
Welford, as it was in old receipts: a division that waits for the mean before it. An arg-reduction:
comparisons that know NaN and the smaller column."""
_BY_VECTOR = {
    "softmax": (5.0, 7.0, 60.0),
    "logsum": (6.0, 7.0, 60.0),
    "welford": (4.0, 10.0, 20.0),
    "co_moments": (9.0, 52.0, 45.0),
    "weighted": (6.0, 8.0, 60.0),
    "distances": (7.0, 9.0, 60.0),
    "divergence": (13.0, 18.0, 90.0),
    "divergence_open": (12.0, 18.0, 90.0),
}
"""What takes a vector in at once: instructions of each column, of each vector, and cycles until the next
vector; counted in machine code (7 instructions a column of four with welford, whose division by the count has
no branch; 95 for 16 columns of a softmax whose vectors come four at a time, 61 for eight where they come one
by one; of a divergence 244 and 82, for 16 pairs of columns and for four; all with their loads). Those of
co-moments were counted in the source. The cycles of sums of exponentials are a guess: the new maximum, and
the exponential of how far it is from the old one."""
_WITH_EXPONENTIALS = frozenset(_BY_VECTOR) - MOMENTS
_SIMPLE = (1.0, 5.0)
_SHORT_STEP = 12.0
"""Instructions of a step up to which a compiler unrolls the loop around it by itself."""
_JOINED_CYCLES = {
    **dict.fromkeys(["softmax", "logsum"], 200.0),
    **dict.fromkeys(["weighted", "distances", "divergence", "divergence_open"], 90.0),
    **{"co_moments": 250.0, "welford": 150.0, "argmax": 90.0, "argmin": 90.0, "logsumexp": 70.0},
}
"""One step of a butterfly: a shuffle for every member and what joins them."""
_SIMPLE_JOIN = 32.0
_CYCLES_IN_A_JOIN = 16.0
"""For each of its instructions: two of them in a simple one."""


def instructions_of(roots: Iterable[Expr], fast_math: bool, known: Iterable[int] = ()) -> float:
    """Instructions a column, without memory; what ``known`` has the serials of was computed before."""
    if seen := frozenset(known):
        parts = (one for one in walk_all(tuple(roots)) if isinstance(one, Apply))
        return sum((_cost(one, fast_math) for one in parts if one.serial not in seen), 0.0)
    return _all_instructions(tuple(roots), fast_math)


@lru_cache(maxsize=4096)
def _all_instructions(roots: tuple[Expr, ...], fast_math: bool) -> float:
    """The same where nothing is known: a search asks again for every vector."""
    return sum((_cost(one, fast_math) for one in walk_all(roots) if isinstance(one, Apply)), 0.0)


def slow_instructions(root: Expr, known: Container[int] = ()) -> float:
    """Instructions of an expression from where something is ``known``, by its serial; 0 where no operation of
    it takes more than the cheapest do."""
    parts = [part for part in unguarded(root, known=known) if isinstance(part, Apply)]
    parts = [part for part in parts if part.serial not in known]
    slow = any(part.op in _INSTRUCTIONS for part in parts)
    return sum(_cost(part, False) for part in parts) if slow else 0.0


def multiply_adds(roots: Iterable[Expr], known: Iterable[int] = ()) -> int:
    """Products that an addition takes in, so that both are one instruction: counted as two by the above."""
    uses: dict[int, int] = {}
    added = set[int]()
    seen = set(known)
    for root in roots:
        for expr in walk(root):
            if not isinstance(expr, Apply) or expr.serial in seen:
                continue
            seen.add(expr.serial)
            for operand in expr.args:
                uses[operand.serial] = uses.get(operand.serial, 0) + 1
            if expr.op in ("add", "sub"):
                product = next((one for one in reversed(expr.args) if _is_product(one)), None)
                if product is not None:
                    added.add(product.serial)
    return sum(uses[serial] == 1 for serial in added)


def _is_product(expr: Expr) -> bool:
    return isinstance(expr, Apply) and expr.op == "mul" and expr.dtype in ("f32", "f64")


def _cost(expr: Apply, fast_math: bool) -> float:
    if expr.dtype == "f64":
        return 2 * _INSTRUCTIONS.get(expr.op, _CHEAP)
    if fast_math and expr.op in _FAST:
        return _FAST[expr.op]
    return _INSTRUCTIONS.get(expr.op, _CHEAP)


def join_instructions(kind: str, lanes: int) -> float:
    """Of a thread, to join what so many have: a shuffle for every member, and what takes it in."""
    return math.log2(lanes) * join_cycles(kind) / _CYCLES_IN_A_JOIN if lanes > 1 else 0.0


def is_long(roots: Iterable[Expr], kinds: Iterable[str], width: int = 0) -> bool:
    """True where a column takes so long that a compiler does not unroll the loop over loads by itself."""
    slow = any(isinstance(e, Apply) and e.op in _INSTRUCTIONS for root in roots for e in walk(root))
    return slow or any(k in _WITH_EXPONENTIALS or accumulated(k, width)[0] > _SHORT_STEP for k in kinds)


def accumulated(kind: str, width: int = 0) -> tuple[float, float]:
    """Instructions and chained cycles of taking one column in, of ``width`` that a thread takes together.

    Width 0 is for the kernels of old receipts.
    """
    if kind in _BY_VECTOR and (width or kind not in _ACCUMULATED):
        column, vector, cycles = _BY_VECTOR[kind]
        return column + vector / max(width, 1), cycles / max(width, 1)
    return _ACCUMULATED.get(kind, _SIMPLE)


@dataclass(frozen=True)
class Scanned:
    """What a running total takes: instructions, and cycles of the chain from one value to the next."""

    value: float = 2.0
    """Beside what computes it, until its total is stored."""
    join: float = 0.0
    """Two totals; 0 where it is one instruction, which is counted with the values."""
    cycles: float = 5.0


_RUNNING_LOGSUM = Scanned(value=44.0, join=14.0, cycles=35.0)
"""Counted in PTX: 6 for the total of a thread, 12 to take it in again, 26 for the logarithm; 72 a column in
all, by threads of four in blocks of 64, where joins of logarithms had 194."""
_ACCURATE_LOG, _LOG = 26.0, 3.0


def scanned(op: str, dtype: DType, fast_math: bool) -> Scanned:
    """Of a scan by its operation."""
    if op != "logsumexp":
        return Scanned()
    if dtype == "f64":
        return Scanned(value=180.0, join=90.0, cycles=200.0)
    saved = _ACCURATE_LOG - _LOG if fast_math else 0.0
    return replace(_RUNNING_LOGSUM, value=_RUNNING_LOGSUM.value - saved)


def join_cycles(kind: str) -> float:
    """Cycles of one step of a butterfly."""
    return _JOINED_CYCLES.get(kind, _SIMPLE_JOIN)


_A_BARRIER_NS, _WARP = 40.0, 32


def join_ns(kind: str, lanes: int, tree: bool) -> float:
    """Until every thread of a team knows the result; ``tree`` for a block's tree in shared memory."""
    if lanes == 1:
        return 0.0
    cycles = join_cycles(kind) / CLOCK_GHZ
    if lanes <= _WARP:
        return math.log2(lanes) * cycles
    if tree:
        return (math.log2(lanes) + 2) * (_A_BARRIER_NS + 20.0)
    return (5 + math.log2(lanes / _WARP)) * cycles + 2 * _A_BARRIER_NS
