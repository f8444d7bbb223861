"""Functions of torch that look at values before they compute, without that look; some with a look at sizes.

No export can follow a branch on values. The reference itself still runs torch's function, which raises where
the values are not what it wants. Of a loss with labels at every place, only torch's kernel looks whether the
labels have the places' sizes: an export would take them for sizes of their own. A distribution looks at its
parameters and at what is asked of it. A diagonal is filled through a view of the storage, which no graph of
values has. Where torch makes numbers of sizes, as it finds slopes, norms of matrices or what lies along an
axis, the same is done with sizes that vary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.nn import functional as F

from workbench.problem.bags import embedding_bag
from workbench.problem.order_statistics import quantile_of


@contextmanager
def distributions_that_trust() -> Iterator[None]:
    """Distributions of torch take what they are given, but for those that were told to look."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


def _gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Half of log(var) + (input - target)^2 / var, with ``var`` at least ``eps``."""
    spread = torch.full_like(input, var) if isinstance(var, float) else var
    if spread.shape != input.shape and spread.shape == input.shape[:-1]:
        spread = spread.unsqueeze(-1)
    spread = spread.clamp(min=eps)
    loss = 0.5 * (spread.log() + (input - target).square() / spread)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def _one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at each label's place, 0 at the others; a number of classes that is not given is a value."""
    if num_classes < 0:
        return F.one_hot(tensor, num_classes)
    return (tensor.unsqueeze(-1) == torch.arange(num_classes, device=tensor.device)).to(torch.int64)


def _bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number below ``minlength`` comes, or what it weighs; else the length is a value.

    Torch's own is longer where larger numbers come. They are left out here, and refused among the person's.
    """
    if minlength == 0:
        return torch.bincount(input, weights)
    counted = input < minlength
    kind = torch.int64 if weights is None else torch.float64
    if weights is not None and weights.dtype == torch.float32:
        kind = torch.float32
    each = counted if weights is None else torch.where(counted, weights, 0)
    places = torch.zeros(minlength, dtype=kind, device=input.device)
    return places.scatter_add(0, torch.where(counted, input, 0).to(torch.int64), each.to(kind))


def _cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Products of the rows' distances from their means, over the weight of all columns."""
    rows = input if input.ndim == 2 else input.reshape(1, -1)
    rows = rows if rows.is_floating_point() else rows.to(torch.get_default_dtype())
    given = [weights for weights in (fweights, aweights) if weights is not None]
    if not given:
        away = rows - rows.mean(1, keepdim=True)
        return (away @ away.mT / (rows.shape[1] - correction)).squeeze()
    weight = given[0] * given[-1] if len(given) == 2 else given[0]
    total = weight.sum()
    less = correction if aweights is None else correction * (weight * aweights).sum() / total
    away = rows - (rows * weight).sum(1, keepdim=True) / total
    return (away @ (away * weight).mT / (total - less).clamp(min=0)).squeeze()


def _corrcoef(input: Tensor) -> Tensor:
    """Covariances over the rows' standard deviations."""
    found = _cov(input)
    if found.ndim == 0:
        return found / found
    spread = found.diagonal().sqrt()
    return (found / spread.unsqueeze(1) / spread).clamp(-1, 1)


def _gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...] | list[Tensor]:
    """Slopes along each axis; torch's own makes numbers of sizes. Coordinates for steps are left to it."""
    axes = tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    spacing = 1 if spacing is None else spacing
    steps = (spacing,) * len(axes) if isinstance(spacing, int | float) else tuple(spacing)
    if not all(isinstance(step, int | float) for step in steps):
        return torch.gradient(input, spacing=spacing, dim=dim, edge_order=edge_order)
    return tuple(_slope(input, step, axis, edge_order) for step, axis in zip(steps, axes, strict=True))


def _slope(x: Tensor, step: float, axis: int, edge_order: int) -> Tensor:
    """Half the difference of both neighbours; at the ends the line or parabola through the nearest."""
    length = x.shape[axis]
    inside = (x.narrow(axis, 2, length - 2) - x.narrow(axis, 0, length - 2)) / (2 * step)
    ends = []
    for end, inward in ((0, 1), (length - 1, -1)):
        near, next_to_it = x.narrow(axis, end, 1), x.narrow(axis, end + inward, 1)
        away = next_to_it - near
        if edge_order == 2:
            away = 2 * next_to_it - 1.5 * near - 0.5 * x.narrow(axis, end + 2 * inward, 1)
        ends.append(away / (step * inward))
    return torch.cat((ends[0], inside, ends[1]), axis)


def _along(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """What is chosen along an axis, others as broadcasting has them; torch makes numbers of their sizes."""
    if dim is None:
        return input.reshape(-1).gather(0, indices.reshape(-1))
    axis = dim % input.ndim
    mine, theirs = list(input.shape), list(indices.shape)
    mine[axis] = theirs[axis] = 1
    common: list[int] = list(torch.broadcast_shapes(mine, theirs))  # type: ignore[no-untyped-call]
    sides = [t.expand([*common[:axis], t.shape[axis], *common[axis + 1 :]]) for t in (input, indices)]
    return sides[0].gather(axis, sides[1])


def _kron(input: Tensor, other: Tensor) -> Tensor:
    """Each element of one times the other as a whole; torch makes numbers of the sizes."""
    rank = max(input.ndim, other.ndim)
    mine, theirs = ([1] * (rank - t.ndim) + list(t.shape) for t in (input, other))
    apart = input.reshape([size for each in mine for size in (each, 1)])
    within = other.reshape([size for each in theirs for size in (1, each)])
    return (apart * within).reshape([own * their for own, their in zip(mine, theirs, strict=True)])


def _matrix_norm(
    A: Tensor,
    ord: Any = "fro",
    dim: tuple[int, int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The largest or least sum of a column or a row, or singular value; torch's own makes numbers of sizes.

    What adds up all elements alike, and what raises, is left to it.
    """
    if not isinstance(ord, int | float) or abs(ord) not in (1, 2, math.inf) or not A.is_floating_point():
        made: Tensor = torch.linalg.matrix_norm(A, ord, dim, keepdim, dtype=dtype)
        return made
    x = A if dtype is None else A.to(dtype)
    rows, columns = (axis % x.ndim for axis in dim)
    if abs(ord) == 2:
        values: Tensor = torch.linalg.svdvals(x.movedim((rows, columns), (-2, -1)))
        found = values.amax(-1) if ord > 0 else values.amin(-1)
        return found.unsqueeze(min(rows, columns)).unsqueeze(max(rows, columns)) if keepdim else found
    within, along = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = x.abs().sum(within, keepdim=True)
    found = sums.amax(along, keepdim=True) if ord > 0 else sums.amin(along, keepdim=True)
    return found if keepdim else found.squeeze((rows, columns))


def _norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """Of a matrix where two axes are meant and a kind is named."""
    axes = (-2, -1) if dim is None and A.ndim == 2 else dim
    if isinstance(ord, int | float) and isinstance(axes, tuple | list) and len(axes) == 2:
        return _matrix_norm(A, ord, (axes[0], axes[1]), keepdim, dtype=dtype)
    made: Tensor = torch.linalg.norm(A, ord, dim, keepdim, dtype=dtype)
    return made


def _fill_diagonal(input: Tensor, value: float | Tensor, wrap: bool = False) -> Tensor:
    """A matrix's own tensor with its diagonal filled; taller ones that wrap, and cubes, as torch does it."""
    if input.ndim != 2 or wrap:
        return input.fill_diagonal_(value, wrap)  # type: ignore[arg-type]
    rows, columns = (torch.arange(size, device=input.device) for size in input.shape)
    return input.copy_(torch.where(rows.unsqueeze(1) == columns, value, input))


def _labelled(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The loss, asked whether its labels (N, ...) have the sizes of its logits (N, classes, ...)."""

    def call(input: Tensor, target: Tensor, *args: Any, **named: Any) -> Any:
        if input.ndim == target.ndim + 1 and input.ndim > 2:
            places = (input.shape[0], *input.shape[2:])
            if any(own != place for own, place in zip(target.shape, places, strict=True)):
                raise ValueError(f"labels of {tuple(target.shape)} for logits of {tuple(input.shape)}")
        return loss(input, target, *args, **named)

    return call


UNCHECKED: Mapping[Callable[..., Any], Callable[..., Any]] = {
    F.embedding_bag: embedding_bag,
    F.gaussian_nll_loss: _gaussian_nll_loss,
    F.one_hot: _one_hot,
    torch.Tensor.fill_diagonal_: _fill_diagonal,
    torch.gradient: _gradient,
    torch.kron: _kron,
    torch.linalg.matrix_norm: _matrix_norm,
    torch.linalg.norm: _norm,
    **dict.fromkeys((torch.take_along_dim, torch.Tensor.take_along_dim), _along),
    **dict.fromkeys((torch.quantile, torch.Tensor.quantile), quantile_of),
    **dict.fromkeys((torch.bincount, torch.Tensor.bincount), _bincount),
    **dict.fromkeys((torch.cov, torch.Tensor.cov), _cov),
    **{loss: _labelled(loss) for loss in (F.cross_entropy, F.nll_loss)},
    **dict.fromkeys((torch.corrcoef, torch.Tensor.corrcoef), _corrcoef),
}
"""What is traced in a function's place."""
