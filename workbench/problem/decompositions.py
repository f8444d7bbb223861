"""Which ATen operations are broken down before the playbook sees them, and how.

Owns the decomposition table; runs in a child process that has torch. Everything that is a chain of
pointwise operations and reductions is broken down to those; matrix products, convolutions, pooling,
sorting and scans stay whole.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial, reduce
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._decomp import get_decompositions
from torch._decomp.decompositions import upsample_compute_output_size
from torch.export import default_decompositions
from torch.fx.experimental.symbolic_shapes import statically_known_true

from workbench.problem import order_statistics

aten = torch.ops.aten

_BROKEN_DOWN = [
    "_softmax", "_log_softmax", "_safe_softmax", "native_layer_norm", "native_group_norm",
    "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training", "_fused_rms_norm", "rms_norm", "gelu", "silu", "mish",
    "hardswish", "hardsigmoid", "hardtanh", "leaky_relu", "elu", "celu", "selu", "softplus",
    "log_sigmoid_forward", "_prelu_kernel", "threshold", "hardshrink", "softshrink",
    "softmax_backward_data", "addmm", "baddbmm", "addmv", "addr", "linear", "addcmul", "addcdiv",
    "lerp", "rsub", "glu", "logit", "xlogy", "masked_fill", "fill", "logsumexp",
    "linalg_vector_norm", "norm", "dist", "nll_loss_forward",
    "nll_loss2d_forward", "mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "tril", "triu", "eye", "diag_embed",
    "trace", "roll", "rot90", "stack", "isneginf", "isposinf",
    "nan_to_num", "frac", "deg2rad", "rad2deg", "hypot", "heaviside", "sinc",
    "_scaled_dot_product_flash_attention_for_cpu", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "im2col", "ldexp", "permute_copy", "narrow_copy", "unbind_copy",
]  # fmt: skip

_WHOLE = [
    "convolution", "max_pool2d_with_indices", "avg_pool2d", "cumsum", "cumprod", "embedding",
    "gather", "topk", "sort", "grid_sampler_2d", "logaddexp", "logaddexp2",
]  # fmt: skip


_FEW_PLACES = 4
"""Places of a fold's stride up to which each chooses its own where it is used (lowering/movement.py)."""
_MOST_OF_A_BLOCK = 64
"""Elements of a fold's blocks that are added, each a tensor."""
_COPIES = (1, 2, 4, 8, 16, 32)
"""Of which a float is the exact inverse: a place over so many is a whole number, whatever rounds it."""
_NEAREST = (aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec)
_EXACT = (
    aten._upsample_nearest_exact1d.vec,
    aten._upsample_nearest_exact2d.vec,
    aten._upsample_nearest_exact3d.vec,
)


@cache
def table() -> Mapping[Any, Callable[..., Any]]:
    """Decompositions by operator overload; names this version of torch lacks are left out."""
    known = [getattr(aten, name) for name in _BROKEN_DOWN if hasattr(aten, name)]
    decompositions: dict[Any, Callable[..., Any]] = dict(default_decompositions())
    decompositions.update(get_decompositions(known))
    for name in _WHOLE:
        for overload in getattr(aten, name).overloads():
            decompositions.pop(getattr(getattr(aten, name), overload), None)
    decompositions.update(_own())
    for op, product in ((aten.addmm.default, torch.mm), (aten.baddbmm.default, torch.bmm)):
        decompositions[op] = partial(_added_to_product, decompositions[op], product)
    fold = aten.col2im.default
    decompositions[fold] = partial(_folded, decompositions[fold])
    return decompositions


@contextmanager
def kept_for_the_table() -> Iterator[None]:
    """For a program's export: torch would break these operations down before any table is asked."""
    ours = (aten.multi_margin_loss.default, aten.multilabel_margin_loss_forward.default, *_NEAREST, *_EXACT)
    early = [op for op in ours if DispatchKey.Autograd in op.py_kernels]
    kernels = [op.py_kernels.pop(DispatchKey.Autograd) for op in early]
    try:
        for op in early:
            op._dispatch_cache.clear()
        yield
    finally:
        for op, kernel in zip(early, kernels, strict=True):
            op.py_kernels[DispatchKey.Autograd] = kernel
            op._dispatch_cache.clear()


def _own() -> dict[Any, Callable[..., Any]]:
    return {
        aten.mean.dim: _mean_dim,
        aten.mean.default: _mean,
        aten.var.correction: _var,
        aten.var.dim: lambda x, dim, unbiased=True, keepdim=False: _var(
            x, dim, correction=int(unbiased), keepdim=keepdim
        ),
        aten.var_mean.correction: _var_mean,
        aten.native_group_norm.default: _group_norm,
        aten.round.decimals: _round,
        aten.angle.default: _angle,
        aten.roll.default: _roll,
        aten.lerp.Scalar: _lerp,
        aten._cdist_forward.default: _distances,
        aten.median.dim: order_statistics.median,
        aten.nanmedian.dim: order_statistics.nanmedian,
        aten.kthvalue.default: order_statistics.kth_value,
        aten.multi_margin_loss.default: _multi_margin_loss,
        aten.multilabel_margin_loss_forward.default: _multilabel_margin_loss,
        aten.scatter_reduce.two: _scatter_reduce,
        aten.rrelu_with_noise.default: lambda x, noise, *rest, **named: _rrelu(x, *rest, **named),
        aten.rrelu_with_noise_functional.default: lambda x, noise, *rest, **named: (
            _rrelu(x, *rest, **named),
            noise,
        ),
        **dict.fromkeys(
            (aten.upsample_linear1d.vec, aten.upsample_bilinear2d.vec, aten.upsample_trilinear3d.vec),
            _smoothly_resized,
        ),
        **dict.fromkeys(_NEAREST, partial(_resized_to_nearest, exact=False)),
        **dict.fromkeys(_EXACT, partial(_resized_to_nearest, exact=True)),
        aten.std_mean.correction: _std_mean,
        aten.std.correction: lambda x, dim=None, *, correction=None, keepdim=False: _std_mean(
            x, dim, correction=correction, keepdim=keepdim
        )[0],
        torch.ops.prims.var.default: lambda x, dims, correction=1, *, output_dtype=None: _var(
            x, dims, correction=correction
        ),
    }


def _distances(x: Tensor, y: Tensor, p: float, compute_mode: int | None) -> Any:
    """Of every point of (..., P, M) from every one of (..., R, M): (..., P, R).

    Euclidean ones of many points torch has made a product of before it comes to this. Those that count how
    many numbers differ, with p = 0, and largest differences, where NaN is lost on the way, stay whole.
    """
    if p == 0 or math.isinf(p):
        return NotImplemented
    apart = (x.unsqueeze(-2) - y.unsqueeze(-3)).abs()
    if p == 2:
        return apart.square().sum(-1).sqrt()
    return apart.sum(-1) if p == 1 else apart.pow(p).sum(-1).pow(1 / p)


def _lerp(start: Tensor, end: Tensor, weight: float) -> Tensor:
    """From the nearer end, as torch does; torch's own decomposition asks each element which one that is."""
    beyond = abs(weight) >= 0.5
    return (weight - 1 if beyond else weight) * (end - start) + (end if beyond else start)


def _added_to_product(
    whole: Callable[..., Tensor],
    product: Callable[[Tensor, Tensor], Tensor],
    added: Tensor,
    left: Tensor,
    right: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> Tensor:
    """A product of 16-bit matrices stays one, and what is added to it is added in float32.

    torch's own decomposition, ``whole``, would make all three float32 before it multiplies: factors of 16
    bits are multiplied more than ten times as fast.
    """
    if left.dtype not in (torch.float16, torch.bfloat16):
        return whole(added, left, right, beta=beta, alpha=alpha)
    made = product(left, right).float()
    made = made if alpha == 1 else made * alpha
    if beta != 0:
        made = made + (added.float() if beta == 1 else added.float() * beta)
    return made.to(left.dtype)


def _accumulator(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The input in the precision sums are made in: float32 at least."""
    wanted = dtype or x.dtype
    wide = torch.float32 if wanted in (torch.float16, torch.bfloat16) else wanted
    return x.to(wide)


def _count(x: Tensor, dim: Sequence[int]) -> Any:
    count: Any = 1
    for axis in dim:
        count = count * x.shape[axis]
    return count


def _axes(x: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None or (not isinstance(dim, int) and not dim):
        return list(range(x.ndim))
    return [dim] if isinstance(dim, int) else list(dim)


def _mean_dim(
    x: Tensor, dim: Sequence[int] | None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    axes = _axes(x, dim)
    total = aten.sum.dim_IntList(_accumulator(x, dtype), axes, keepdim)
    mean: Tensor = total / _count(x, axes)
    return mean.to(dtype or x.dtype)


def _mean(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return _mean_dim(x, None, dtype=dtype)


def _moments(
    x: Tensor, dim: int | Sequence[int] | None, correction: float | None, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """Variance and mean, two passes: the sum of squared deviations never cancels."""
    axes = _axes(x, dim)
    wide = _accumulator(x)
    count = _count(x, axes)
    mean = aten.sum.dim_IntList(wide, axes, True) / count
    deviation = wide - mean
    square = (deviation * deviation.conj()).real if x.dtype.is_complex else deviation * deviation
    squares = aten.sum.dim_IntList(square, axes, keepdim)
    # A whole number stays one: a float would make the size a float, which no plan can compute.
    whole = 1 if correction is None else int(correction) if float(correction).is_integer() else correction
    divisor = count - whole
    if not keepdim:
        mean = aten.squeeze.dims(mean, axes)
    return (squares / divisor).to(x.dtype.to_real()), mean.to(x.dtype)


def _var(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Tensor:
    return _moments(x, dim, correction, keepdim)[0]


def _var_mean(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    return _moments(x, dim, correction, keepdim)


def _round(x: Tensor, *, decimals: int = 0) -> Tensor:
    """To so many decimals: places before the point where they are negative."""
    wide, ten = _accumulator(x), 10.0 ** abs(decimals)
    if decimals == 0 or not x.is_floating_point():
        return aten.round.default(x)  # type: ignore[no-any-return]
    rounded = (wide * ten).round() / ten if decimals > 0 else (wide / ten).round() * ten
    return rounded.to(x.dtype)


def _angle(x: Tensor) -> Any:
    """Of a real number: half a turn where it is negative. Complex ones are complex_rules.py's."""
    if x.dtype.is_complex:
        return NotImplemented
    real = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    turned = torch.where(real < 0, math.pi, torch.zeros_like(real))
    return torch.where(real.isnan(), real, turned)


def _std_mean(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    """Rounded once, at the end: the variance of 16-bit values may be more than 16 bits hold."""
    variance, mean = _moments(_accumulator(x), dim, correction, keepdim)
    return variance.sqrt().to(x.dtype), mean.to(x.dtype)


def _roll(x: Tensor, shifts: Any, dims: int | Sequence[int] = ()) -> Tensor:
    """Two slices in the other order, axis by axis: torch's own looks every element up where it computes."""
    if not dims:
        rolled: Tensor = _roll(x.reshape(-1), shifts, (0,)).reshape(x.shape)
        return rolled
    axes = [dims] if isinstance(dims, int) else list(dims)
    by = list(shifts) if isinstance(shifts, (list, tuple)) else [shifts]
    for shift, axis in zip(by, axes, strict=True):
        size = x.shape[axis]
        # So much of its size every shape has that was given; a plan asks it of others.
        shift = shift if isinstance(shift, int) and abs(shift) <= size else shift % size
        cut = size - shift if shift > 0 else -shift
        x = torch.cat([x.narrow(axis, cut, size - cut), x.narrow(axis, 0, cut)], axis) if shift else x
    return x


def _folded(
    otherwise: Callable[..., Any],
    x: Tensor,
    size: Sequence[Any],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Any:
    """Overlapping blocks put together: each place adds up what of every block lies there.

    torch's own, ``otherwise``, adds every element to wherever it belongs.
    """
    batch = x if x.dim() == 3 else x.unsqueeze(0)
    ways = tuple(zip(size, kernel, dilation, padding, stride, strict=True))
    blocks = [
        (count + 2 * beside - step * (width - 1) - 1) // by + 1 for count, width, step, beside, by in ways
    ]
    apart = batch.reshape(batch.shape[0], -1, *kernel, *blocks)
    few = math.prod(stride) <= _FEW_PLACES and math.prod(kernel) <= _MOST_OF_A_BLOCK
    if few:
        found = _shifted_blocks(apart, ways)
    elif tuple(dilation) == (1, 1) and math.prod(-(-k // by) for _, k, _, _, by in ways) <= _MOST_OF_A_BLOCK:
        found = _found_in_blocks(apart, ways)
    else:
        return otherwise(x, size, kernel, dilation, padding, stride)
    return (found if x.dim() == 3 else found.squeeze(0)).to(x.dtype)


_Ways = Sequence[tuple[Any, int, int, int, int]]
"""Along both axes of an image: its size, a block's, dilation, padding, stride."""


def _shifted_blocks(apart: Tensor, ways: _Ways) -> Tensor:
    """Places that are as far into their stride have the same elements of their blocks, each a few blocks on:
    shifted tensors are added, one for each element, and put side by side."""
    turns, stride = [-(-count // by) for count, _, _, _, by in ways], [by for *_, by in ways]
    places = []
    for into in itertools.product(*map(range, stride)):
        shares = []
        for at in itertools.product(*(range(width) for _, width, _, _, _ in ways)):
            ahead = [
                place * step - beside - first
                for place, (_, _, step, beside, _), first in zip(at, ways, into, strict=True)
            ]
            if any(way % by for way, by in zip(ahead, stride, strict=True)):
                continue
            on = [way // by for way, by in zip(ahead, stride, strict=True)]
            rest = [turn - count - way for turn, count, way in zip(turns, apart.shape[4:], on, strict=True)]
            piece = _accumulator(apart[:, :, at[0], at[1]])
            shares.append(torch.nn.functional.pad(piece, (on[1], rest[1], on[0], rest[0])))
        none = _accumulator(apart.new_zeros((*apart.shape[:2], *turns)))
        places.append(reduce(torch.add, shares) if shares else none)
    found = torch.stack(places, -1).reshape(*places[0].shape, *stride).permute(0, 1, 2, 4, 3, 5)
    found = found.reshape(*apart.shape[:2], turns[0] * stride[0], turns[1] * stride[1])
    for axis, (count, *_, by) in enumerate(ways, 2):
        found = found.narrow(axis, 0, count) if count % by else found
    return found


def _found_in_blocks(apart: Tensor, ways: _Ways) -> Tensor:
    """Each place looks up what lies there: in the last block that begins before it, the one before that, and
    so on, as many as overlap."""
    along = []
    for axis, (count, width, _, beside, by) in enumerate(ways):
        place = (torch.arange(count, device=apart.device) + beside).reshape(-1, *(1,) * (1 - axis))
        ways_here = []
        for back in range(-(-width // by)):
            into, block = place % by + back * by, place // by - back
            is_there = (into < width) & (block >= 0) & (block < apart.shape[4 + axis])
            last = apart.shape[4 + axis] - 1
            ways_here.append((is_there, into.clamp(max=width - 1), block.clamp(0, last)))
        along.append(ways_here)
    shares = []
    for (above, row, block_row), (left, column, block_column) in itertools.product(*along):
        here = apart[:, :, row, column, block_row, block_column]
        shares.append(torch.where(above & left, _accumulator(here), 0.0))
    return reduce(torch.add, shares)


def _scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """Means as sums over counts; without what was there before, from what no value loses to.

    A place that nothing comes to keeps what it has.
    """
    if reduce == "mean" and x.is_floating_point():
        count = _counts(x, dim, index) + int(include_self)
        wide = _accumulator(x)
        first = wide if include_self else torch.where(count > 0, 0.0, wide)
        return (first.scatter_add(dim, index, src.to(wide.dtype)) / count.clamp(min=1)).to(x.dtype)
    if include_self or reduce not in ("sum", "amax", "amin"):
        return NotImplemented
    least: Any = 0
    if reduce != "sum":
        ends = torch.finfo(x.dtype) if x.is_floating_point() else torch.iinfo(x.dtype)
        least = ends.min if reduce == "amax" else ends.max
        least = least * math.inf if x.is_floating_point() else least
    first = torch.where(_counts(x, dim, index) > 0, torch.full_like(x, least), x)
    return aten.scatter_reduce.two(first, dim, index, src, reduce)


def _counts(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """How many values come to each place; once for all places that one index is repeated for."""
    shape = list(x.shape)
    for axis, step in enumerate(index.stride()):
        if axis != dim % max(x.ndim, 1) and step == 0 and index.shape[axis] == shape[axis]:
            index, shape[axis] = index.narrow(axis, 0, 1), 1
    zeros = torch.zeros(shape, dtype=torch.int32, device=x.device)
    return zeros.scatter_add(dim, index, torch.ones_like(index, dtype=torch.int32))


def _rrelu(x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, *_: Any) -> Tensor:
    """Outside training, where the slope would be drawn and is refused: the middle of its range."""
    return torch.where(x > 0, x, x * ((lower + upper) / 2))


def _multi_margin_loss(
    x: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1,
    weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """Of every class but the target's, what comes closer to it than ``margin``, over the number of classes.

    What is not a number is not closer, as in eager; torch's own decomposition clamps, which keeps NaN.
    """
    rows, labels = x.reshape(-1, x.shape[-1]), target.reshape(-1)
    own = labels.reshape(-1, 1)
    close = margin - rows.gather(1, own) + rows
    lost = close if p == 1 else close * close
    if weight is not None:
        lost = lost * weight.index_select(0, labels).reshape(-1, 1)
    others = torch.arange(rows.shape[1], device=x.device) != own
    counted = torch.where(others & (close > 0), lost, 0)
    total = counted.sum(1) if reduction == 0 else counted.sum()
    mean: Tensor = total / (counted.numel() if reduction == 1 else rows.shape[1])
    return mean


def _multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int = 1) -> tuple[Tensor, Tensor]:
    """Of every label of a row, up to the first -1, and every other class: what comes closer than 1 to it.

    As above for what is not a number; and torch's own decomposition counts class 0 for what follows a -1.
    """
    rows, labels = (t if t.ndim > 1 else t.unsqueeze(0) for t in (x, target))
    count = rows.shape[1]
    classes = torch.arange(count, device=x.device)
    end = torch.where(labels == -1, classes, count).amin(1, True)
    named = classes < end
    own = rows.gather(1, torch.where(named, labels, 0))
    is_target = (torch.where(named, labels, -1).unsqueeze(2) == classes).any(1)
    close = 1 - own.unsqueeze(2) + rows.unsqueeze(1)
    counted = named.unsqueeze(2) & ~is_target.unsqueeze(1) & (close > 0)
    lost = torch.where(counted, close, 0).sum((1, 2)) / count
    if reduction == 0:
        lost = lost.reshape(target.shape[:-1])
    else:
        lost = lost.mean() if reduction == 1 else lost.sum()
    return lost, is_target.to(x.dtype).reshape(target.shape)


def _smoothly_resized(
    x: Tensor, size: Sequence[Any] | None, align_corners: bool, scales: Sequence[float] | None
) -> Tensor:
    """Linear interpolation along the last axes, as a weighted sum of the two neighbours along each.

    torch's own decomposition adds a share of the neighbours' difference, which is NaN beside an infinity
    where eager has the infinity.
    """
    sizes = upsample_compute_output_size(x.shape, size, scales)  # type: ignore[no-untyped-call]
    result = _accumulator(x)
    for axis, count in enumerate(sizes, x.ndim - len(sizes)):
        whole, scale = x.shape[axis], scales[axis - x.ndim + len(sizes)] if scales else None
        if scale == 1 or (not scale and statically_known_true(count == whole)):
            continue  # every place is its own, and the neighbour's share is none
        at = torch.arange(count, device=x.device).to(result.dtype)
        if align_corners:
            place = at * ((whole - 1) / (count - 1) if count > 1 else 0.0)
        else:
            place = ((at + 0.5) * (1 / scale if scale else whole / count) - 0.5).clamp(min=0.0)
        before = place.to(torch.int64)
        after = (before + 1).clamp(max=whole - 1)
        share = (place - before).clamp(0.0, 1.0).reshape(-1, *(1,) * (x.ndim - axis - 1))
        left, right = result.index_select(axis, before), result.index_select(axis, after)
        result = left * (1 - share) + right * share
    return result.to(x.dtype)


def _resized_to_nearest(
    x: Tensor, size: Sequence[Any] | None, scales: Sequence[float] | None, exact: bool
) -> Tensor:
    """The nearest neighbour along each of the last axes. Where there are a power of two for each that was,
    they are its copies: torch's own decomposition looks every element up where it computes."""
    sizes = upsample_compute_output_size(x.shape, size, scales)  # type: ignore[no-untyped-call]
    for axis, count in enumerate(sizes, x.ndim - len(sizes)):
        whole, scale = x.shape[axis], scales[axis - x.ndim + len(sizes)] if scales else None
        known = (
            n for n in _COPIES if scale == n or (not scale and statically_known_true(count == whole * n))
        )
        copies = next(known, None)
        if copies is not None:
            shape = (*x.shape[: axis + 1], copies, *x.shape[axis + 1 :])
            x = x if copies == 1 else x.unsqueeze(axis + 1).expand(shape).flatten(axis, axis + 1)
            continue
        at = torch.arange(count, device=x.device, dtype=torch.float32)
        place = ((at + 0.5 if exact else at) * (1 / scale if scale else whole / count)).to(torch.int64)
        x = x.index_select(axis, place)
    return x


def _group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: Any,
    channels: Any,
    pixels: Any,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """In one shape throughout, so that it stays one kernel: statistics a group, then an affine step."""
    wide = _accumulator(x).reshape(batch, groups, channels // groups, pixels)
    variance, mean = _moments(wide, (2, 3), 0, keepdim=True)
    rstd = torch.rsqrt(variance + eps)
    result = (wide - mean) * rstd
    shape = (1, groups, channels // groups, 1)
    if weight is not None:
        result = result * weight.reshape(shape)
    if bias is not None:
        result = result + bias.reshape(shape)
    statistics = (batch, groups)
    return result.reshape(x.shape).to(x.dtype), mean.reshape(statistics), rstd.reshape(statistics)
