"""One output held against its bound: how wrong, how often, where.

Works in chunks, so that comparing needs little more memory than the tensors themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.model import ULP_EDGES, Crossed, Difference, WorstEntry
from workbench.numerics.bounds import OutputBound
from workbench.numerics.chosen_places import misplaced
from workbench.numerics.dtypes import is_float
from workbench.numerics.pattern import describe
from workbench.numerics.steps import in_doubt, used_share
from workbench.numerics.tracked import LARGEST, Step, Tie

CHUNK = 1 << 20
BINS = 32
WORST = 10
SHOWN_RATIO = 1e6
"""Heat map entries end here: a NaN and a value a million times too far off look the same."""


@dataclass(frozen=True, eq=False)
class _Measured:
    """Error of every element: absolute, and over the bound. Flat; inf where positions of NaN differ."""

    absolute: Tensor
    ratio: Tensor


def compare(got: Tensor, bound: OutputBound, output: int = 0) -> Difference:
    """Compare one output of the expected shape and dtype. ``max_ratio`` above 1 is wrong."""
    measured, told = _measured(got, bound)
    if not measured.ratio.numel():
        return Difference(output=output, max_abs=0.0, max_ratio=0.0)
    step = bound.step
    crossed = None if step is None else _crossed(_signed(got, bound.expected), step, measured.ratio)
    wrong = measured.ratio > 1
    finite = measured.absolute[torch.isfinite(measured.absolute)]
    max_abs = float(finite.max()) if finite.numel() else torch.inf
    is_wrong = bool(wrong.any())
    pattern = ""
    if is_wrong:
        pattern = told or describe(got, bound.expected, wrong.reshape(bound.expected.shape))
    return Difference(
        output=output,
        max_abs=max_abs,
        max_ratio=float(measured.ratio.max()),
        wrong_fraction=float(wrong.to(torch.float64).mean()),
        worst=_worst(got, bound, measured) if is_wrong else (),
        pattern=pattern,
        heatmap=_heatmap(measured.ratio, tuple(bound.expected.shape)) if is_wrong else (),
        ulps=ulp_histogram(measured.absolute, bound.expected, got.dtype) if bound.tie is None else (),
        crossed=crossed,
    )


def largest_ratio(got: Tensor, bound: OutputBound) -> float:
    """``max_ratio`` alone, of which a wrong answer takes a small part of the time."""
    ratio = _measured(got, bound)[0].ratio
    return float(ratio.max()) if ratio.numel() else 0.0


def _measured(got: Tensor, bound: OutputBound) -> tuple[_Measured, str]:
    """Every element, and what is wrong with all of them together, in words."""
    measured = _compared_values(got, bound) if bound.tie is None else _compared_indices(got, bound.tie)
    if bound.step is None or not measured.ratio.numel():
        return measured, ""
    return _shared_out(measured, bound, bound.step, _signed(got, bound.expected))


def _signed(got: Tensor, expected: Tensor) -> Tensor:
    off = got.to(torch.float64) - expected.to(torch.float64)
    return torch.where(torch.isfinite(off), off, 0.0)


def _shared_out(measured: _Measured, bound: OutputBound, step: Step, off: Tensor) -> tuple[_Measured, str]:
    """Where more elements lie across an edge than rounding carries there, those that do are wrong."""
    share = used_share(off, step)
    if share <= bound.share or bool((measured.ratio > 1).any()):
        return measured, ""
    far = (in_doubt(step) & _is_across(off, step)).reshape(-1)
    over = torch.where(far, torch.full_like(measured.ratio, share / bound.share), measured.ratio)
    told = "more of those near an edge lie across it than rounding explains"
    return _Measured(measured.absolute, over), told


def _crossed(off: Tensor, step: Step, ratio: Tensor) -> Crossed | None:
    """The right elements that lie across an edge; None without any."""
    fallen = in_doubt(step) & _is_across(off, step) & (ratio.reshape(off.shape) <= 1)
    count = int(fallen.sum())
    if not count:
        return None
    return Crossed(elements=count, of=off.numel(), distance=float(step.distance[fallen].max()))


def _is_across(off: Tensor, step: Step) -> Tensor:
    """Off by most of what the step allows, and not by the rounding that other elements have as well."""
    side = torch.where(off < 0, step.down, step.up)
    return (off != 0) & (off.abs() >= 0.5 * side)


def ulp_histogram(absolute: Tensor, expected: Tensor, dtype: torch.dtype) -> tuple[int, ...]:
    """Elements in each bin of ``ULP_EDGES`` and beyond; ``absolute`` is flat. Empty for integers."""
    if not dtype.is_floating_point:
        return ()
    info = torch.finfo(dtype)
    edges = torch.tensor(ULP_EDGES, dtype=torch.float64, device=absolute.device)
    counts = torch.zeros(len(ULP_EDGES) + 1, dtype=torch.int64, device=absolute.device)
    wanted = expected.reshape(-1)
    for start in range(0, wanted.numel(), CHUNK):
        part = wanted[start : start + CHUNK].to(torch.float64).abs().clamp_min(info.smallest_normal)
        # frexp puts the fraction into [0.5, 1): a value of exponent e has its last place at 2^(e-1) eps.
        unit = torch.ldexp(torch.full_like(part, info.eps), torch.frexp(part).exponent - 1)
        off = (absolute[start : start + CHUNK].to(torch.float64) / unit).nan_to_num(torch.inf, torch.inf)
        counts += torch.bincount(torch.bucketize(off, edges), minlength=len(counts))
    return tuple(counts.tolist())


def _compared_values(got: Tensor, bound: OutputBound) -> _Measured:
    flat_got, flat_expected = got.reshape(-1), bound.expected.reshape(-1)
    step = bound.step
    sides = [bound.allowed] if step is None else [step.down, step.up]
    flat_sides = [side.reshape(-1) for side in sides]
    absolute = torch.empty(flat_got.shape, dtype=torch.float32, device=got.device)
    ratio = torch.empty_like(absolute)
    largest = LARGEST[bound.dtype] if is_float(bound.dtype) else torch.inf
    for start in range(0, flat_got.numel(), CHUNK):
        part = slice(start, start + CHUNK)
        off, over = _measured_chunk(
            flat_got[part], flat_expected[part], [side[part] for side in flat_sides], largest
        )
        absolute[part], ratio[part] = off.to(torch.float32), over.to(torch.float32)
    return _Measured(absolute, ratio)


def _measured_chunk(
    got: Tensor, expected: Tensor, sides: list[Tensor], largest: float
) -> tuple[Tensor, Tensor]:
    """``sides`` is what is allowed, or what is allowed below and what above."""
    wide, wanted = got.to(torch.float64), expected.to(torch.float64)
    allowed = sides[0] if len(sides) == 1 else torch.where(wide < wanted, sides[0], sides[1])
    # A value too large for the dtype is infinity there, and so may a value within its bound be.
    beyond = torch.isfinite(wanted) & (wanted.abs() + allowed > largest)
    same = (wide == wanted) | (wide.isnan() & wanted.isnan())
    same |= beyond & wide.isinf() & (wide.sign() == wanted.sign())
    off = torch.where(same, 0.0, (wide - wanted).abs()).nan_to_num(torch.inf, torch.inf)
    over = torch.where(allowed > 0, off / allowed.clamp_min(1e-300), torch.where(off > 0, torch.inf, 0.0))
    over = torch.where(allowed.isinf() | same, 0.0, over.nan_to_num(torch.inf, torch.inf))
    # float32 holds the ratio from here on; keep an error beyond its range an error.
    return off, torch.where(over > 1, over.clamp(1.0001, 3e38), over)


def _compared_indices(got: Tensor, tie: Tie) -> _Measured:
    off, ratio = misplaced(got, tie)
    return _Measured(off.to(torch.float32), ratio.to(torch.float32))


def _worst(got: Tensor, bound: OutputBound, measured: _Measured) -> tuple[WorstEntry, ...]:
    shape = tuple(bound.expected.shape)
    count = min(WORST, measured.ratio.numel())
    entries = []
    for position in measured.ratio.topk(count).indices.tolist():
        if float(measured.ratio[position]) <= 1:
            break
        expected, found = bound.expected.reshape(-1)[position], got.reshape(-1)[position]
        entries.append(
            WorstEntry(index=_unravelled(position, shape), expected=float(expected), got=float(found))
        )
    return tuple(entries)


def _unravelled(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        index.append(position % size)
        position //= size
    return tuple(reversed(index))


def _heatmap(ratio: Tensor, shape: tuple[int, ...]) -> tuple[tuple[float, ...], ...]:
    """Largest ratio in each of at most 32 x 32 bins of the output seen as rows x columns."""
    columns = shape[-1] if shape else 1
    grid = ratio.clamp(0, SHOWN_RATIO).reshape(-1, columns)
    across = [grid[:, a:b].amax(dim=1) for a, b in _edges(columns)]
    narrow = torch.stack(across, dim=1)
    down = [narrow[a:b].amax(dim=0) for a, b in _edges(narrow.shape[0])]
    return tuple(tuple(round(value, 4) for value in row.tolist()) for row in down)


def _edges(size: int) -> list[tuple[int, int]]:
    bins = min(size, BINS)
    return [(i * size // bins, (i + 1) * size // bins) for i in range(bins)]
