"""Fresh tensors for a problem at one case: kind of input and seed in, tensors out.

Owns how values are drawn. The same problem, case, kind and seed give the same tensors on every run.
Never decides which kinds or seeds are tried: that is the referee's matrix.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import torch

from workbench.model import Case, Problem, Sampler, TensorMeta, TensorSpec, contiguous_strides, size_of
from workbench.numerics.dtypes import TORCH, is_float
from workbench.numerics.kinds import InputKind

OFFSET = 8.0
"""Mean over standard deviation of ``offset`` inputs: enough to hurt careless variances, not honest ones."""
NONZERO_SHARE = 0.1
LEAST_WITH_ZEROS = 2
"""Of an axis; a single row of zeros would say nothing else."""
UNCOUNTED_SHARE = 0.25
"""Of ``labels``: places that do not count."""
PIECE = 2**22
"""Elements drawn at once on a device: float64 on the way."""
_LEAST_VARIANCE = 0.25
"""Of a covariance, where the others' mean is one: far enough from singular for float32."""
LARGEST = 1e4
"""Heavy tails end here, so that a product of two stays inside float16's and float32's comfort."""


def draw(problem: Problem, case: Case, kind: InputKind, seed: int) -> dict[str, torch.Tensor]:
    """Draw every tensor argument of the problem, by name, with the strides its spec asks for.

    ``kind`` shapes the scalable float inputs. Parameters and buffers are drawn from their own sampler
    whatever the kind, except that ``zero-one`` makes scalable ones 0 or 1 as well, so that linear
    operations are exact. Integer, bool and unscalable tensors always stay in their own range.
    """
    metas = problem.metas(case)
    specs = [_bounded(spec, case) for spec in problem.tensors]
    return {spec.name: _draw_one(spec, metas[spec.name], kind, seed) for spec in specs}


def draw_on(
    device: str,
    problem: Problem,
    case: Case,
    kind: InputKind,
    seed: int,
    places: Mapping[str, torch.Tensor],
) -> None:
    """Draw large tensors on a device, piece by piece, into ``places``, by name.

    Other values than ``draw`` gives, from the same distributions; the same on every run on one kind of
    device. ``special values`` are not drawn this way.
    """
    metas = problem.metas(case)
    with torch.device(device):
        for spec in (_bounded(spec, case) for spec in problem.tensors):
            meta, generator = metas[spec.name], _generator(spec.name, kind, seed, device)
            storage = places[spec.name]
            if not meta.is_contiguous:
                storage.copy_(place(_values(spec, meta, kind, seed, generator), meta))
                continue
            flat = storage.view(-1)
            unit = meta.shape[-2:] if spec.sampler.kind == "covariances" else ()
            whole = math.prod(unit)
            step = max(PIECE // whole, 1) * whole
            for start in range(0, meta.numel, step):
                count = min(step, meta.numel - start)
                shape = (count // whole, *unit)
                piece = TensorMeta(dtype=meta.dtype, shape=shape, strides=contiguous_strides(shape))
                drawn = _values(spec, piece, kind, seed, generator)
                flat[start : start + count].copy_(drawn.view(-1))


def _bounded(spec: TensorSpec, case: Case) -> TensorSpec:
    """Indices into an axis end where the axis does at this case, and where the shortest of several does."""
    ends = spec.sampler.high_dim
    if ends is None:
        return spec
    high = float(min(size_of(end, case.size_map) for end in (ends if isinstance(ends, tuple) else (ends,))))
    return spec.model_copy(update={"sampler": spec.sampler.model_copy(update={"high": high})})


def _draw_one(spec: TensorSpec, meta: TensorMeta, kind: InputKind, seed: int) -> torch.Tensor:
    return place(_values(spec, meta, kind, seed, _generator(spec.name, kind, seed)), meta)


def _values(
    spec: TensorSpec, meta: TensorMeta, kind: InputKind, seed: int, generator: torch.Generator
) -> torch.Tensor:
    values = _base(spec.sampler, meta, generator)
    if is_float(meta.dtype) and spec.sampler.scalable:
        if spec.role == "input":
            return _shaped(values, kind, spec, seed, generator)
        if kind == "zero-one":
            return _zero_one(values, generator)
    return values


def _generator(name: str, kind: str, seed: int, device: str = "cpu") -> torch.Generator:
    """Each tensor has its own stream, so that adding a tensor does not change the others."""
    digest = hashlib.sha256(f"{name}\0{kind}\0{seed}".encode()).digest()
    generator = torch.Generator(device)
    generator.manual_seed(int.from_bytes(digest[:7], "little"))
    return generator


def _base(sampler: Sampler, meta: TensorMeta, generator: torch.Generator) -> torch.Tensor:
    """Draw from the sampler itself: float64 for float dtypes, else the dtype's own."""
    shape, dtype = meta.shape, TORCH[meta.dtype]
    match sampler.kind:
        case "normal":
            values = torch.randn(shape, generator=generator, dtype=torch.float64)
            values.mul_(sampler.high).add_(sampler.low)
        case "covariances":
            root = torch.randn(shape, generator=generator, dtype=torch.float64)
            values = sampler.high * covariances_of(root)
        case "uniform":
            values = torch.rand(shape, generator=generator, dtype=torch.float64)
            values.mul_(sampler.high - sampler.low).add_(sampler.low)
        case "given":
            values = torch.tensor(sampler.values, dtype=torch.float64, device=generator.device).reshape(shape)
        case "integers":
            low, high = int(sampler.low), max(int(sampler.high), int(sampler.low) + 1)
            values = torch.randint(low, high, shape, generator=generator, dtype=torch.int64)
        case "labels":
            values = torch.randint(
                0, max(int(sampler.high), 1), shape, generator=generator, dtype=torch.int64
            )
            counts = torch.rand(shape, generator=generator) >= UNCOUNTED_SHARE
            values = torch.where(counts, values, int(sampler.low))
        case "bools":
            values = torch.rand(shape, generator=generator) < 0.5
            if is_float(meta.dtype):
                values = torch.where(values, sampler.high, sampler.low)
    if is_float(meta.dtype):
        return values.to(torch.float64)
    return values.to(dtype)


def covariances_of(root: torch.Tensor) -> torch.Tensor:
    """Symmetric positive definite matrices of any ones with elements of about one."""
    size = root.shape[-1]
    unit = torch.eye(size, dtype=root.dtype, device=root.device)
    return root @ root.mT / size + _LEAST_VARIANCE * unit


def _shaped(
    values: torch.Tensor, kind: InputKind, spec: TensorSpec, seed: int, generator: torch.Generator
) -> torch.Tensor:
    sampler = spec.sampler
    match kind:
        case "normal":
            return values
        case "scale 1e-3":
            return values * 1e-3
        case "scale 64":
            return values * 64.0
        case "offset":
            return values + OFFSET * _spread(sampler)
        case "heavy-tailed":
            tail = torch.randn(values.shape, generator=generator, dtype=torch.float64)
            return (values * torch.exp(1.5 * tail)).clamp(-LARGEST, LARGEST)
        case "far negative":
            return 64.0 * (values - OFFSET * _spread(sampler))
        case "sparse":
            kept = torch.rand(values.shape, generator=generator) < NONZERO_SHARE
            return _one_of_every_axis_zero(torch.where(kept, values, torch.zeros_like(values)), generator)
        case "zero-one":
            return _zero_one(values, generator)
        case "special values":
            # Not all tensors begin alike, so that a NaN of one meets ordinary values of another.
            offset = hashlib.sha256(spec.name.encode()).digest()[0]
            return _special(values, 2 * seed + offset, generator)


def _spread(sampler: Sampler) -> float:
    return sampler.high if sampler.kind == "normal" else sampler.high - sampler.low


def _one_of_every_axis_zero(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One row, one column, one of each long axis is all zeros, as padding is: nothing to divide by."""
    for axis, size in enumerate(values.shape):
        if size >= LEAST_WITH_ZEROS:
            values.select(axis, int(torch.randint(size, (), generator=generator))).zero_()
    return values


def _zero_one(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return (torch.rand(values.shape, generator=generator) < 0.5).to(torch.float64)


def _special(values: torch.Tensor, turn: int, generator: torch.Generator) -> torch.Tensor:
    """Ties in every row; one NaN, one inf or a few -inf in every other row, the rest stay ordinary.

    Values are rounded to halves, which makes ties. A row is a run along the last dimension. With ``turn``,
    ``turn + 2`` and ``turn + 4`` each of the special rows meets each of the three; a single row is special. A
    single number is only at every second seed: where a scale is NaN all is, and nothing tells of the rest.
    """
    if values.numel() == 1 and turn // 2 % 2:
        return values
    rows = (values * 2).round().div(2).reshape(-1, values.shape[-1] if values.dim() else 1).clone()
    count, width = rows.shape
    column = torch.randint(0, max(width, 1), (count,), generator=generator)
    if count == 1:
        turn -= turn % 2
    for row in range(count):
        match (row + turn) % 6:
            case 0:
                rows[row, column[row]] = torch.nan
            case 2:
                rows[row, column[row]] = torch.inf
            case 4:
                masked = torch.rand(width, generator=generator) < 0.3
                masked[column[row]] = True
                rows[row, masked] = -torch.inf
            case _:
                pass
    return rows.reshape(values.shape)


def place(values: torch.Tensor, meta: TensorMeta) -> torch.Tensor:
    """Cast ``values`` to the meta's dtype and lay them out with its strides.

    Gaps between elements hold NaN (or the largest integer), so that a kernel that ignores strides is
    seen. Axes of stride 0 repeat the first slice.
    """
    dtype = TORCH[meta.dtype]
    if meta.is_contiguous:
        return values.to(dtype).contiguous()
    for axis, stride in enumerate(meta.strides):
        if stride == 0 and meta.shape[axis] > 1:
            values = values.narrow(axis, 0, 1)
    reach = sum((size - 1) * stride for size, stride in zip(meta.shape, meta.strides, strict=True))
    storage = torch.empty(max(reach, 0) + 1, dtype=dtype)
    storage.fill_(
        torch.nan if dtype.is_floating_point else torch.iinfo(dtype).max if dtype != torch.bool else 1
    )
    storage.as_strided(tuple(values.shape), meta.strides).copy_(values.to(dtype))
    return storage.as_strided(meta.shape, meta.strides)
