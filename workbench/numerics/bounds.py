"""How far an honest kernel may be from float64, element by element.

Owns the bound of a whole problem: the running error of its graph where the graph reproduces the
oracle, else the reference's own float32 error and how far it moves with its inputs. Calibrated from
both sides in the tests: another order of reduction, online softmax, Welford and the fast intrinsics
pass; float16, bfloat16 and TF32 arithmetic inside a float32 contract fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import prod

import torch
from torch import Tensor

from workbench.model import DType, Problem, size_of
from workbench.numerics.chosen_places import admitting
from workbench.numerics.coarser import reach
from workbench.numerics.conditioning import MORE_PROBES, PROBES, Oracle
from workbench.numerics.dtypes import U32, UNIT, accumulate_unit, is_float
from workbench.numerics.order import Order, in_order, orders
from workbench.numerics.reach import Reach
from workbench.numerics.running import Running
from workbench.numerics.steps import NOISE, allowed_share
from workbench.numerics.tracked import TINY, Step, Tie, Tracked, all_finite, deviation

RMS_FLOOR = 2 * U32
"""Part of the output's root mean square that is always allowed: rewrites may round elsewhere."""
FAR_BEYOND, SAMPLED = 1e4, 2**16
"""Times as large as the next smaller of so many elements: such a gap no result has that is of one kind."""
DECISIVE = 0.1
"""A check tells right from zeros when the bound stays below this part of the output's size."""
WIDE, WIDE_UNITS = 0.01, 12
"""Part of an output's size that a running error may be, and units of its dtype; a larger one is held against
coarser arithmetic."""
MUCH = 0.25
"""Part of an output's size that coarser arithmetic may make; where it makes more, it tells nothing."""
FALLBACK_SAFETY = 4.0
OWN_MARGIN = 2.0
SWINGS = 8.0
"""Times what inputs off by a rounding make of a result, where nothing is known of what is between."""
SWINGS_TOO_LARGE = 128.0
"""The same where the graph is known and does not fit in memory. torch's fused kernel of attention, which sums
scores in another order, needs some 20 for one element of 4 million where 16384 places attend to each other.
At 576 places bounds of the graph allow 30 times what ``SWINGS`` do; steps in TF32 are off by thousands."""
KEPT, KEPT_ON_A_CARD = 2**26, 2**28
"""Elements of all results of a graph, to be kept: 24 bytes each."""
FEWER_BITS = "what arithmetic with three bits less makes of the graph"
OWN = "for the reference's own error"
ROWS_LEFT = "but for rows in which the reference's own places are others"
DIFFER = "the graph and the float64 reference differ"
TOO_LARGE = "the steps of the graph do not fit in memory"


@dataclass(frozen=True, eq=False)
class OutputBound:
    """What one output must be: ``expected`` is float64 for float outputs, exact otherwise."""

    dtype: DType
    expected: Tensor
    allowed: Tensor
    """Absolute error allowed, float64, same shape; inf where the reference itself overflows."""
    tie: Tie | None
    basis: str
    """In words, what the bound rests on."""
    step: Step | None = None
    """Where elements may have fallen over an edge: what is allowed below and above, within ``allowed``."""
    share: float = torch.inf
    """Of what all elements near an edge are allowed, what an honest kernel may use (``steps.used_share``)."""
    order: Order | None = None
    """Where rows come in an order that nobody promises (``in_expected_order``)."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that a comparison rests on."""
        step = () if self.step is None else (self.step.down, self.step.up, self.step.distance)
        return (self.expected, self.allowed, *step)

    @property
    def decisive(self) -> bool:
        """False where the bound is so wide, or the output so small, that zeros would pass."""
        if self.tie is not None and self.tie.unasked is not None:
            return not bool(self.tie.unasked.all())
        if not is_float(self.dtype):
            return True
        finite = torch.isfinite(self.expected)
        if not bool(finite.any()):
            return bool((~finite).any())
        return bool((self.expected.abs()[finite] * DECISIVE > self.allowed[finite]).any())


def bounds(
    problem: Problem,
    sizes: Mapping[str, int],
    tensors: Mapping[str, Tensor],
    oracle: Oracle,
    native: Callable[[], tuple[Tensor, ...]],
) -> tuple[OutputBound, ...]:
    """Bound every output of ``problem`` for these inputs.

    ``oracle`` is the reference in float64; ``native`` runs it in its own precision. Where the graph tells too
    little, the reference is run in float64 again, on inputs that are moved.
    """
    running, keep = Running(sizes=sizes, contract=problem.contract), _fits(problem, sizes, tensors)
    free: tuple[Order | None, ...] = (None,) * len(problem.outputs)
    try:
        tracked = running.outputs(problem.graph, tensors, keep=keep)
        free = orders(problem.graph, tensors, running, tracked, keep)
        reason = ""
    except (
        RuntimeError,
        TypeError,
        ValueError,
        KeyError,
        IndexError,
        AttributeError,
        NotImplementedError,
    ) as error:
        tracked, reason = (), f"the graph could not be interpreted ({type(error).__name__})"
        if isinstance(error, torch.OutOfMemoryError):
            reason = TOO_LARGE
    own = in_order(native(), oracle.results, free)
    coarse = cache(lambda: reach(problem.graph, tensors, running))
    swings = cache(lambda: oracle.swings(tensors, MORE_PROBES if reason == TOO_LARGE else PROBES))
    infinite = any(t.is_floating_point() and bool(t.isinf().any()) for t in tensors.values())
    result = []
    for position, (spec, expected) in enumerate(zip(problem.outputs, oracle.results, strict=True)):
        odd = _in_dispute(tracked[position].value, expected, infinite) if position < len(tracked) else None
        if odd is not None and agrees(_as_the_oracle(tracked[position], expected, odd), expected):
            bound = _from_graph(tracked[position], expected, running.unknown, spec.dtype)
            if not running.left_open:  # a few draws need not have met the other value
                bound = _narrowed(bound, coarse, position)
            swing = partial(_of, swings, position)
            result.append(_admitting(_asking_nothing(bound, odd), own[position], swing))
        else:
            known = _Known(own[position], expected, swings()[position])
            result.append(_from_reference(known, spec.dtype, reason or DIFFER))
    return tuple(replace(bound, order=order) for bound, order in zip(result, free, strict=True))


def in_expected_order(outputs: Sequence[Tensor], limits: Sequence[OutputBound]) -> tuple[Tensor, ...]:
    """All outputs of a kernel as they are compared: in the oracle's order where none is promised."""
    if all(limit.order is None for limit in limits) or len(outputs) != len(limits):
        return tuple(outputs)
    return in_order(outputs, [limit.expected for limit in limits], [limit.order for limit in limits])


def _fits(problem: Problem, sizes: Mapping[str, int], tensors: Mapping[str, Tensor]) -> bool:
    """True where every result may be kept; else those that are wanted again are computed again."""
    on_card = any(t.is_cuda for t in tensors.values())
    elements = sum(prod(size_of(d, sizes) for d in out.dims) for n in problem.graph.nodes for out in n.outs)
    return elements <= (KEPT_ON_A_CARD if on_card else KEPT)


def _of(swings: Callable[[], tuple[Tensor, ...]], position: int) -> Tensor:
    return swings()[position]


def _in_dispute(value: Tensor, expected: Tensor, infinite: bool) -> Tensor:
    """Where the graph has NaN and the oracle an infinity, or the other way round: both in float64.

    A mean is infinite as a sum over a count, NaN by Welford's updates, which subtract it from itself; and
    there it depends on where in its row the infinity lies. An infinite weight of a batch norm makes NaN where
    the mean is multiplied with it beforehand, as torch does on a CPU; without, an infinity, and ReLU a zero:
    so of ``infinite`` inputs any number may stand against NaN. Of others, a NaN that is lost stays a mistake.
    """
    if value.shape != expected.shape or not (value.is_floating_point() and expected.is_floating_point()):
        return torch.zeros(expected.shape, dtype=torch.bool, device=expected.device)
    apart = value.isnan() != expected.isnan()
    return apart if infinite else apart & (value.isinf() | expected.isinf())


def _as_the_oracle(tracked: Tracked, expected: Tensor, odd: Tensor) -> Tracked:
    if not bool(odd.any()):
        return tracked
    return replace(tracked, value=torch.where(odd, expected.to(tracked.value.dtype), tracked.value))


def _asking_nothing(bound: OutputBound, odd: Tensor) -> OutputBound:
    """Of elements that honest ways of computing disagree about."""
    if not bool(odd.any()):
        return bound
    step = None if bound.step is None else bound.step.unsure(odd)
    return replace(bound, allowed=torch.where(odd, torch.inf, bound.allowed), step=step)


def _admitting(bound: OutputBound, native: Tensor, swing: Callable[[], Tensor]) -> OutputBound:
    """Widen the bound until the reference's own result passes: it is honest by definition.

    Where the reference is finite in one precision and not in the other, nothing is asked.
    """
    if native.shape != bound.expected.shape:
        return bound
    if bound.step is not None:
        return _admitting_steps(bound, bound.step, native)
    if bound.tie is not None:
        tie = admitting(bound.tie, native)
        return bound if tie is bound.tie else replace(bound, tie=tie, basis=f"{bound.basis}, {ROWS_LEFT}")
    if not is_float(bound.dtype):
        return _admitting_numbers(bound, native)
    wide = native.to(torch.float64)
    undecided = torch.isfinite(wide) != torch.isfinite(bound.expected)
    undecided |= wide.isnan() != bound.expected.isnan()
    allowed = torch.where(undecided, torch.inf, bound.allowed)
    off = deviation(bound.expected, wide)
    off = torch.where(torch.isfinite(bound.expected) & torch.isfinite(off), off, 0.0)
    bound = replace(bound, allowed=allowed)
    return _widened(bound, off, swing()) if bool((off > allowed).any()) else bound


def _admitting_numbers(bound: OutputBound, native: Tensor) -> OutputBound:
    """Whole numbers where the reference has another in its own precision, as a class of what overflowed."""
    off = deviation(bound.expected.to(torch.float64), native.to(torch.float64))
    others = int((off > bound.allowed).sum())
    if not others:
        return bound
    basis = f"{bound.basis}, with {others} elements as the reference has them"
    return replace(bound, allowed=torch.maximum(bound.allowed, off), basis=basis)


def _widened(bound: OutputBound, off: Tensor, swing: Tensor) -> OutputBound:
    """All elements by one factor, or each by what it moves where inputs move, whichever is the less.

    One element that cancels may be off by hundreds of times its bound. That is nothing that the others, which
    do not cancel, should be allowed, and those that do so on another draw are.
    """
    outside = off > bound.allowed
    factor = OWN_MARGIN * float((off / bound.allowed.clamp_min(1e-300))[outside].max())
    alike = bound.allowed * factor
    times = OWN_MARGIN * float((off / swing)[outside].max())
    along = torch.maximum(bound.allowed, (times * swing).nan_to_num(torch.inf, torch.inf))
    counted = torch.isfinite(alike) & torch.isfinite(bound.expected)
    if bool(along[counted].mean() < alike[counted].mean()):
        what = f"to {times:.3g} times what a rounding of the inputs does to it"
        return replace(bound, allowed=along, basis=f"{bound.basis}, widened {what} {OWN}")
    return replace(bound, allowed=alike, basis=f"{bound.basis}, widened {factor:.3g} times {OWN}")


def _admitting_steps(bound: OutputBound, step: Step, native: Tensor) -> OutputBound:
    """The same where a value may fall over an edge: element by element.

    One element that the reference rounds otherwise says nothing of the others; a bound that were widened
    everywhere for its sake would let any of them fall.
    """
    off = native.to(torch.float64) - bound.expected.to(torch.float64)
    same = (native == bound.expected) | (native.isnan() & bound.expected.isnan())
    undecided = ~torch.isfinite(off) & ~same
    off = torch.where(torch.isfinite(off), off, 0.0)
    down = torch.where(undecided, torch.inf, torch.maximum(step.down, -off))
    up = torch.where(undecided, torch.inf, torch.maximum(step.up, off))
    granted = (down > step.down) | (up > step.up)
    own = int(granted.sum()) - int(undecided.sum())
    basis = f"{bound.basis}, with {own} elements as the reference has them" if own > 0 else bound.basis
    # What is allowed for the reference's sake has no part in the share: an honest kernel takes all of it.
    sides = Step(down, up, torch.where(granted, torch.inf, step.distance))
    share = allowed_share(off, sides)
    return replace(bound, allowed=torch.maximum(down, up), step=sides, share=share, basis=basis)


def agrees(tracked: Tracked, expected: Tensor) -> bool:
    """True when the graph computes what the oracle computes, up to the running error."""
    if tracked.value.shape != expected.shape:
        return False
    if tracked.value.dtype.is_floating_point != expected.dtype.is_floating_point:
        return False
    off = deviation(expected, tracked.value)
    slack = tracked.error + 64 * UNIT["f64"] * tracked.value.to(torch.float64).abs().nan_to_num(0.0, 0.0)
    if expected.dtype.is_floating_point:
        slack = slack + RMS_FLOOR * _rms(expected)
    off, slack = (one.nan_to_num(torch.inf, torch.inf) for one in (off, slack))
    return bool((off <= slack).all()) or tracked.tie is not None


def _from_graph(tracked: Tracked, expected: Tensor, unknown: list[str], dtype: DType) -> OutputBound:
    basis = "running error of the graph"
    if unknown:
        basis += f"; by probing: {', '.join(dict.fromkeys(unknown))}"
    # What is allowed lies around the graph's own value: where a sum cancels, float64 in another order may lie
    # beyond an edge.
    off = tracked.value.to(torch.float64) - expected.to(torch.float64)
    off = torch.where(torch.isfinite(off), off, 0.0) if tracked.tie is None else torch.zeros_like(off)

    def widened(error: Tensor) -> Tensor:
        if is_float(dtype):
            asked = torch.where(torch.isfinite(error), expected, torch.inf)
            rounded = error > 0
            size = _usual(torch.where(rounded, asked, torch.inf))
            if not bool(rounded.all()):  # a number that a mask puts there is no measure of what it leaves
                size = torch.where(rounded, size, _usual(asked))
            error = error + _output_floor(expected, dtype, size)
        elif tracked.step is not None:  # whole numbers are off by whole numbers
            error = (error * (1 + NOISE) + NOISE).floor()
        return error.nan_to_num(torch.inf, torch.inf)

    if tracked.step is None:
        return OutputBound(dtype, expected, widened(tracked.error + off.abs()), tracked.tie, basis)
    down, up = (tracked.down - off).clamp_min(0.0), (tracked.up + off).clamp_min(0.0)
    step = Step(widened(down), widened(up), tracked.step.distance)
    allowed = torch.maximum(step.down, step.up)
    return OutputBound(dtype, expected, allowed, tracked.tie, basis, step)


def _narrowed(
    bound: OutputBound, coarse: Callable[[], tuple[Reach, ...] | None], position: int
) -> OutputBound:
    """Where roundings that all went the worst way could make much of the output: no more than arithmetic with
    fewer bits makes of it.

    Unless that is much as well: what turns over for a rounding is no matter of chance that a few draws tell.
    """
    if bound.step is not None or bound.tie is not None or not is_float(bound.dtype):
        return bound
    number = torch.isfinite(bound.expected)
    size, usual = _rms(bound.expected), max(WIDE, WIDE_UNITS * UNIT[bound.dtype])
    if not bool(number.any()) or bool(bound.allowed[number].square().mean().sqrt() <= usual * size):
        return bound
    moves = coarse()
    if moves is None:
        return bound
    move = moves[position]
    known = number & torch.isfinite(move.far)
    if not bool(known.any()) or bool(_rms(move.far[known]) > MUCH * size):
        return bound
    by_chance = move.allowed + _output_floor(bound.expected, bound.dtype, _usual(bound.expected))
    allowed = torch.where(known, torch.minimum(bound.allowed, by_chance), bound.allowed)
    return replace(bound, allowed=allowed, basis=FEWER_BITS)


@dataclass(frozen=True, eq=False)
class _Known:
    """Of one output whose graph tells nothing."""

    native: Tensor
    expected: Tensor
    swing: Tensor


def _from_reference(known: _Known, dtype: DType, why: str) -> OutputBound:
    """By the reference's own error on this draw and by what its inputs' rounding makes: the first alone would
    be next to nothing where it happens to be exact."""
    native, expected = known.native, known.expected
    basis = f"{why}; bounded by {FALLBACK_SAFETY:g} times the reference's own error, inputs moved a little"
    wide = native.to(torch.float64)
    off = deviation(expected, wide)
    finite = torch.where(torch.isfinite(off), off, torch.zeros_like(off))
    if not is_float(dtype):
        return OutputBound(dtype, expected, torch.maximum(finite, known.swing), None, basis)
    spread = finite.square().mean().sqrt() if off.numel() else off.new_zeros(())
    swings = SWINGS_TOO_LARGE if why == TOO_LARGE else SWINGS
    allowed = FALLBACK_SAFETY * torch.maximum(finite, spread) + swings * known.swing
    allowed = allowed + 16 * accumulate_unit(dtype) * expected.abs().nan_to_num(0.0, 0.0)
    allowed = allowed + _output_floor(expected, dtype, _usual(expected))
    # The reference itself leaves the range here: nothing can be asked of a kernel.
    lost = torch.isfinite(expected) & ~torch.isfinite(wide)
    return OutputBound(dtype, expected, torch.where(lost, torch.inf, allowed), None, basis)


def _output_floor(expected: Tensor, dtype: DType, size: Tensor) -> Tensor:
    """Rounding to the output's dtype, and a small part of the output's ``size`` as a whole.

    An element beside a pole, of which nothing is asked, is not part of it: it may be as large as all others.
    Nor is what was put there as it is, such as the -1e9 of a mask.
    """
    own = UNIT[dtype] * expected.abs().nan_to_num(0.0, 0.0) + TINY[dtype]
    floor = UNIT["f64"] * 8 if dtype == "f64" else RMS_FLOOR
    return own + floor * size


def _usual(values: Tensor) -> Tensor:
    """Root mean square of the finite ones, without those that lie far beyond: what a mask has made of some
    says nothing of how the others round."""
    kept = values[torch.isfinite(values) & (values != 0)].abs()
    step = -(-kept.numel() // SAMPLED)
    ordered = kept[:: max(step, 1)].sort().values
    few = ordered.numel() // 100
    far = (ordered[few + 1 :] > FAR_BEYOND * ordered[few:-1]).nonzero()
    if not far.numel():
        return _rms(values)
    return _rms(torch.where(values.abs() <= ordered[few + int(far[0])], values, torch.inf))


def _rms(values: Tensor) -> Tensor:
    finite = values if all_finite(values) else values[torch.isfinite(values)]
    if not finite.numel():
        return values.new_zeros((), dtype=torch.float64)
    largest = finite.abs().max().clamp_min(1e-300)  # squares of huge values would overflow
    return largest * (finite / largest).square().mean().sqrt()
