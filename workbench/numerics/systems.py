"""How solving systems of equations rounds: inverses, solutions, determinants, factors.

An elimination is as good as exact for a matrix that is a little off: by ``3 n u |L| |U|`` at most, whichever
way it is written down (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., theorem 9.4; 10.3
for Cholesky's, 8.5 for triangles). What that and the errors of the matrix itself come to in the result is its
inverse's business, matrix by matrix: one of a batch that is nearly singular says nothing of the others. Where
a matrix that is a little off may be singular, and of matrices that have no number somewhere, nothing is
asked: what pivots are then differs from library to library. Owns these bounds; running.py has the values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.model.systems import System, is_single
from workbench.numerics.dtypes import accumulate_unit
from workbench.numerics.tracked import Tracked, rounded

Result = Tracked | tuple[Tracked, ...]

_MANY = 16
"""Rows from which on roundings are taken to cancel as often as not, and grow by the root of their number."""
_LOG = 4.0
"""Roundings of a logarithm and of a sum of some."""


@dataclass(frozen=True)
class _Off:
    """Matrices in float64, and by how much they may be off: their own errors, and those of an elimination."""

    matrix: Tensor
    by: Tensor
    lost: Tensor
    """True, a matrix each, where nothing is asked."""


def settled(system: System, made: tuple[Tracked, ...], matrix: Tracked, sides: Tracked | None) -> Result:
    """What an operation gives, ``made`` by running it, with the errors of any way to solve the system."""
    if not system.left:
        assert sides is not None
        columns = replace(system, upper=not system.upper, left=True)
        turned = (_turned(made[0]), *made[1:])
        of_columns = settled(columns, turned, _turned(matrix), _turned(sides))
        if isinstance(of_columns, tuple):
            return (_turned(of_columns[0]), *of_columns[1:])
        return _turned(of_columns)
    off = _off(system, matrix)
    values = [one.value.to(torch.float64) for one in made]
    match system.kind:
        case "det":
            errors = [torch.where(off.lost, torch.inf, _of_minors(off))]
        case "slogdet":
            errors = _of_logarithm(off, values[1], _LOG * accumulate_unit(matrix.dtype))
        case "cholesky":
            errors = [_of_factor(off, values[0], system.upper)]
        case "inv" | "cholesky_inverse":
            inverse = _inverse(off.matrix)
            errors = [_solved(off, inverse, inverse, torch.zeros_like(inverse))]
        case _:
            assert sides is not None
            errors = [_of_solution(off, values[0], sides)]
    ruled = [_ruled(one, error) for one, error in zip(made, errors, strict=False)]
    found = [*ruled, *made[len(ruled) :]]
    if system.told is not None:  # of a matrix that may have no inverse it is not asked which pivot is none
        lost, told = errors[0].isinf().reshape(*off.matrix.shape[:-2], -1)[..., 0], made[system.told]
        found[system.told] = replace(told, shared=torch.where(lost, torch.inf, told.shared))
    return tuple(found) if len(found) > 1 else found[0]


def _ruled(made: Tracked, error: Tensor) -> Tracked:
    """Where nothing is asked a kernel may have no number, which is none when it is clamped either."""
    value = torch.where(error.isinf(), torch.nan, made.value.to(torch.float64))
    own = accumulate_unit(made.dtype) * value.abs().nan_to_num(0.0, 0.0)
    return rounded(value, own, (torch.zeros_like(error), error), made.dtype)


def _turned(x: Tracked) -> Tracked:
    value, independent, shared = (one.transpose(-2, -1) for one in (x.value, x.independent, x.shared))
    return Tracked(value, independent, shared, x.dtype)


def _off(system: System, x: Tracked) -> _Off:
    """The matrix that an operation solves with: what it is given, a triangle of it, or what that is of."""
    values = x.value.to(torch.float64)
    cut = {"triangular", "cholesky_solve", "cholesky_inverse", "cholesky"} & {system.kind}
    keep = (torch.triu if system.upper else torch.tril) if cut else torch.clone
    values, error = keep(values), keep(x.error)
    lost = ~torch.isfinite(values).all(-1).all(-1) | error.isinf().any(-1).any(-1)
    unit = torch.eye(values.shape[-1], dtype=torch.float64, device=values.device)
    matrix = torch.where(lost[..., None, None], unit, values)
    error = error.nan_to_num(0.0, 0.0)
    rows = values.shape[-1]
    part = 3 * accumulate_unit(x.dtype) * min(rows, (_MANY * rows) ** 0.5)
    if system.kind == "cholesky":
        whole = matrix + matrix.transpose(-2, -1) - torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1))
        off = torch.maximum(error, error.transpose(-2, -1))
        lower, failed = torch.linalg.cholesky_ex(whole)
        lower = lower.nan_to_num(0.0, 0.0, 0.0).abs()
        return _Off(whole, part * lower @ lower.transpose(-2, -1) + off, lost | (failed != 0))
    if system.kind in ("cholesky_solve", "cholesky_inverse"):
        low, by = (one.transpose(-2, -1) if system.upper else one for one in (matrix, error))
        size = low.abs()
        own = by @ size.transpose(-2, -1) + size @ by.transpose(-2, -1)
        return _Off(low @ low.transpose(-2, -1), part * size @ size.transpose(-2, -1) + own, lost)
    if system.kind == "triangular":
        matrix = (
            matrix - torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1)) + unit if system.unit else matrix
        )
        return _Off(matrix, part * matrix.abs() + error, lost)
    order, lower, upper = torch.linalg.lu(matrix)
    return _Off(matrix, part * (order @ (lower.abs() @ upper.abs())) + error, lost)


def _inverse(matrix: Tensor) -> Tensor:
    """Infinite where there is none: what a library leaves then is as it happens to be."""
    inverse, none = torch.linalg.inv_ex(matrix)
    return torch.where((none != 0)[..., None, None], torch.inf, inverse.nan_to_num(torch.inf, torch.inf))


def _solved(off: _Off, inverse: Tensor, found: Tensor, sides: Tensor) -> Tensor:
    """How far what is ``found`` may be off: by the inverse of what is left of the right sides."""
    moves = inverse.abs() @ off.by
    far = moves.sum(-1).amax(-1)
    error = (moves @ found.abs() + inverse.abs() @ sides) / (1 - far)[..., None, None]
    return torch.where(
        (off.lost | ~(far < 1))[..., None, None], torch.inf, error.nan_to_num(torch.inf, torch.inf)
    )


def _of_solution(off: _Off, value: Tensor, sides: Tracked) -> Tensor:
    single = is_single(off.matrix.shape, sides.value.shape)
    found, wrong, known = (
        one.unsqueeze(-1) if single else one for one in (value, sides.error, torch.isfinite(sides.value))
    )
    error = _solved(off, _inverse(off.matrix), found.nan_to_num(0.0, 0.0, 0.0), wrong.nan_to_num(0.0, 0.0))
    lost = (~known | wrong.isinf()).any(-2, keepdim=True)
    error = torch.where(lost, torch.inf, error)
    return error.squeeze(-1) if single else error


def _of_minors(off: _Off) -> Tensor:
    """How far a determinant may be off: each element's error times what is left without its row and column.

    From the singular values, to each of which the errors are added: right for singular matrices too.
    """
    left, values, right = torch.linalg.svd(off.matrix)
    values = values + torch.linalg.matrix_norm(off.by)[..., None]
    count = values.shape[-1]
    apart = [values[..., [j for j in range(count) if j != i]].prod(-1) for i in range(count)]
    minors = (left.abs() * torch.stack(apart, -1)[..., None, :]) @ right.abs()
    error: Tensor = (minors * off.by).sum((-2, -1))
    return error


def _of_logarithm(off: _Off, logarithm: Tensor, unit: float) -> list[Tensor]:
    """Of the sign of a determinant and of its logarithm: of what may be zero nothing is asked."""
    part = _of_minors(off) / logarithm.exp()
    lost = off.lost | ~(part < 1)
    own = unit * (1 + logarithm.abs()) * off.matrix.shape[-1]
    logs = (part / (1 - part) + own).nan_to_num(torch.inf, torch.inf)
    return [torch.where(lost, torch.inf, one) for one in (torch.zeros_like(part), logs)]


def _of_factor(off: _Off, value: Tensor, upper: bool) -> Tensor:
    """Of Cholesky's factor; the other triangle is zero."""
    lower = value.nan_to_num(0.0, 0.0, 0.0)
    lower = lower.transpose(-2, -1) if upper else lower
    inverse = _inverse(lower).abs()
    moves = inverse @ off.by @ inverse.transpose(-2, -1)
    far = moves.sum(-1).amax(-1)
    error = (lower.abs() @ moves.tril() / (1 - far)[..., None, None]).nan_to_num(torch.inf, torch.inf)
    error = torch.where((off.lost | ~(far < 1))[..., None, None], torch.inf, error).tril()
    return error.transpose(-2, -1) if upper else error
