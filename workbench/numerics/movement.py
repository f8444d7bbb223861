"""Operations that move elements without arithmetic: errors travel with their elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from workbench.model import DType
from workbench.numerics.beyond import held
from workbench.numerics.choices import rearranged
from workbench.numerics.dtypes import TORCH, UNIT, accumulate_unit, is_float
from workbench.numerics.places import swing_beside
from workbench.numerics.spans import of_all, stored
from workbench.numerics.steps import begins_anew, first_edge, not_promised, to_whole, within, without_noise
from workbench.numerics.tracked import ANYWHERE, Step, Tracked, edge_of, exact, narrowing, nothing, rounded

_MOVE_NAMES = """
view _unsafe_view reshape permute transpose t expand slice select unsqueeze squeeze clone alias detach
flip roll cat stack split split_with_sizes unbind chunk narrow diagonal as_strided unfold repeat
index_select gather index embedding constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d
replication_pad2d pixel_shuffle pixel_unshuffle tril triu contiguous lift_fresh_copy select_scatter
slice_scatter
"""
_CREATION_NAMES = "full full_like zeros zeros_like ones ones_like arange scalar_tensor eye linspace"
MOVES = frozenset(_MOVE_NAMES.split())
CREATIONS = frozenset(_CREATION_NAMES.split())
CASTS = frozenset(("_to_copy", "convert_element_type", "to"))
_INDEXED = frozenset(("index_select", "gather", "index", "embedding"))
_OTHERS_BESIDE = frozenset(("constant_pad_nd", "as_strided", "tril", "triu"))
"""Results with elements that no operand has."""
SAME_ORDER = frozenset(
    ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "clone", "alias", "contiguous")
)


def move(
    name: str, op: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], dtype: DType
) -> Tracked | tuple[Tracked, ...]:
    """Apply the same movement to values and to both kinds of error; ``name`` is the bare name."""
    values = _applied(name, op, args, kwargs, lambda x: x.value)
    given = [arg for arg in _flat(args) if isinstance(arg, Tracked)]
    fill = _held_otherwise(args) if name == "constant_pad_nd" and is_float(dtype) else 0.0
    if not fill and all(one.is_exact and one.tie is None and one.step is None for one in given):
        parts = (values,) if isinstance(values, Tensor) else values
        still = tuple(exact(part, dtype) for part in parts)
        return still[0] if isinstance(values, Tensor) else still
    independent = _applied(name, op, args, kwargs, lambda x: x.independent)
    span = of_all(one.span for one in (given[:1] if name in _INDEXED else given))
    span = ANYWHERE if name in _OTHERS_BESIDE else span
    shared = _applied(name, op, args, kwargs, lambda x: x.shared)
    if fill:
        shared = shared + op(torch.zeros_like(args[0].value), args[1], fill)
    sides: tuple[Any, ...] = ()
    if any(one.step for one in given):
        picks = (lambda x: x.down, lambda x: x.up, edge_of)
        sides = tuple(_applied(name, op, args, kwargs, pick) for pick in picks)
    if not isinstance(values, Tensor):
        parts = zip(values, independent, shared, strict=True)
        made = [_moved(args, part, dtype) for part in parts]
        steps = [Step(*three) for three in zip(*sides, strict=True)] if sides else [None] * len(made)
        return tuple(replace(one, step=step, span=span) for one, step in zip(made, steps, strict=True))
    step = Step(*sides) if sides else None
    moved = replace(_moved(args, (values, independent, shared), dtype), step=step, span=span)
    if name in SAME_ORDER and isinstance(args[0], Tracked):
        moved = replace(moved, tie=args[0].tie)
    return _with_doubtful_index(name, op, args, moved)


def _applied(
    name: str,
    op: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    pick: Callable[[Tracked], Tensor],
) -> Any:
    """Call ``op`` with the picked part of every operand that holds data; indices stay indices."""
    if name in _INDEXED:
        data, rest = [_mapped(args[0], pick)], _mapped(args[1:], lambda x: x.value)
    else:
        data, rest = _mapped(args, pick), []
    is_error = args and isinstance(args[0], Tracked) and pick(args[0]) is not args[0].value
    if name == "as_strided" and is_error:  # it reads storage, in which errors may have one zero for all
        data = [torch.empty_like(args[0].value, dtype=torch.float64).copy_(data[0]), *data[1:]]
    if name == "constant_pad_nd" and is_error:
        data, kwargs = data[:2], {}
    return op(*data, *rest, **kwargs)


def _held_otherwise(args: list[Any]) -> float:
    """How far float32's number for what an edge is filled with lies from it."""
    value = args[2] if len(args) > 2 else 0.0
    off = float(value) - float(held(float(value))) if isinstance(value, (int, float)) else 0.0
    return abs(off) if math.isfinite(off) else 0.0


def _moved(args: list[Any], parts: tuple[Tensor, Tensor, Tensor], dtype: DType) -> Tracked:
    value, independent, shared = parts
    source = args[0] if args and isinstance(args[0], Tracked) else None
    if source is not None and value.numel() > source.value.numel():
        independent, shared = torch.zeros_like(independent), shared + independent
    return Tracked(value, independent, shared, dtype)


def _beside(name: str, op: Callable[..., Any], args: list[Any], moved: Tracked) -> Tensor | None:
    """What one index that is off by a few places makes of the elements it finds; None for any other."""
    axis = 0 if name == "embedding" else args[1]
    if name == "index":
        given = [place for place, one in enumerate(args[1]) if one is not None]
        axis = given[0] if len(given) == 1 else None
    index = next(one for one in _flat(args[1:]) if isinstance(one, Tracked))
    if not isinstance(axis, int) or index.value.dtype == torch.bool:
        return None

    def look_up(at: Tensor) -> Tensor:
        found = op(args[0].value, *_mapped(args[1:], lambda one: at if one is index else one.value))
        return found if isinstance(found, Tensor) else moved.value

    return swing_beside(look_up, index, args[0].value, axis, moved.value)


def _with_doubtful_index(name: str, op: Callable[..., Any], args: list[Any], moved: Tracked) -> Tracked:
    """Where the index itself is in doubt (a near-tie upstream), any element of the source may come."""
    if name not in _INDEXED:
        return moved
    tracked = [a for a in _flat(args[1:]) if isinstance(a, Tracked)]
    if all(index.is_exact for index in tracked) or not args[0].value.numel():
        return moved
    beside = rearranged(args[0], args[2], args[1], moved.value) if name == "gather" else None
    beside = _beside(name, op, args, moved) if beside is None else beside
    if beside is not None:
        return replace(moved, shared=moved.shared + beside, step=None)
    source = args[0].value.to(torch.float64)
    spread = (source.max() - source.min()).abs().nan_to_num(torch.inf, torch.inf)
    spread = torch.where(_doubted(name, args, moved.value.dim()), spread, 0.0)
    return Tracked(moved.value, moved.independent, moved.shared + spread, moved.dtype, span=moved.span)


def _doubted(name: str, args: list[Any], rank: int) -> Tensor:
    """Which elements of a result of so many axes an index in doubt has chosen, along the axes it makes."""
    given = args[1] if name == "index" else args[2:3] if name in ("gather", "index_select") else args[1:2]
    places = [place for place, index in enumerate(given) if index is not None]
    doubt = torch.zeros((), dtype=torch.bool)
    for index in given:
        if isinstance(index, Tracked):
            doubt = doubt.to(index.error.device) | (index.error > 0)
    if name == "gather":
        return doubt
    if name == "embedding":
        return doubt.unsqueeze(-1)
    if name == "index_select":
        axis = args[1] % rank
        return doubt.reshape(-1, *[1] * (rank - axis - 1))
    together = places[-1] - places[0] == len(places) - 1
    behind = args[0].value.dim() - places[-1] - 1 if together else args[0].value.dim() - len(places)
    return doubt.reshape(*doubt.shape, *[1] * behind)


def _flat(args: Any) -> list[Any]:
    if isinstance(args, (list, tuple)):
        return [leaf for item in args for leaf in _flat(item)]
    return [args]


def _mapped(args: Any, pick: Callable[[Tracked], Tensor]) -> Any:
    if isinstance(args, (list, tuple)):
        return type(args)(_mapped(value, pick) for value in args)
    return pick(args) if isinstance(args, Tracked) else args


def cast(x: Tracked, dtype: DType) -> Tracked:
    """Change of dtype. A kernel may leave the rounding out, so only the error grows."""
    if is_float(dtype):
        value = x.value.to(torch.float64)
        picks = not x.value.dtype.is_floating_point
        made = rounded(value, torch.zeros_like(value), (x.independent, x.shared), dtype, picks=picks)
        made = replace(made, span=stored(x.span, UNIT[dtype]))
        if x.step is None:
            return made
        own = narrowing(value, dtype, picks=picks)
        return replace(made, step=within(x.down + own, x.up + own, x.step.distance, made))
    value = x.value.to(TORCH[dtype])
    if x.value.dtype == torch.float64:  # a value just below an integer may truncate to the one before
        low, high = x.value - x.down, x.value + x.up
        if x.step is not None:
            low, high = without_noise(low), without_noise(high)
        down = (x.value.trunc() - low.trunc()).nan_to_num(torch.inf, torch.inf)
        up = (high.trunc() - x.value.trunc()).nan_to_num(torch.inf, torch.inf)
        unsure = not_promised(low, high, TORCH[dtype])
        down, up = (torch.where(unsure, torch.inf, side) for side in (down, up))
        error = torch.maximum(down, up)
        edge = first_edge(edge_of(x), to_whole(x.value), error > 0)
        return Tracked(value, torch.zeros_like(error), error, dtype, step=Step(down, up, edge))
    made = replace(x, value=value, dtype=dtype)
    if x.is_exact or x.value.dtype == torch.bool:
        return made
    wide = x.value.to(torch.float64)
    return _unsure(made, begins_anew(wide - x.down, wide + x.up, TORCH[dtype]))


def _unsure(x: Tracked, where: Tensor) -> Tracked:
    """Nothing is known of these elements."""
    if not bool(where.any()):
        return x
    step = None if x.step is None else x.step.unsure(where)
    return replace(x, shared=torch.where(where, torch.inf, x.shared), step=step)


def bits_as(x: Tracked, dtype: DType) -> Tracked:
    """Bits read as another type, such as those of a float32 as an int32.

    Raises ``ValueError`` for what was rounded on its way: one unit in the last place is the next whole number
    where the exponent is left alone, and any number to an operation that picks bits out.
    """
    if not x.is_exact:
        raise ValueError("bits of a rounded value")
    held = x.value.to(TORCH[x.dtype])
    if is_float(x.dtype):  # float64 does not say which NaN it was: the usual one
        held = torch.where(held.isnan(), torch.tensor(torch.nan, dtype=held.dtype, device=held.device), held)
    return exact(held.contiguous().view(TORCH[dtype]), dtype)


def placed(made: Any, device: torch.device) -> Any:
    """Where the tensors of a check are: what is made from sizes alone is made on the CPU."""
    return made.to(device) if isinstance(made, Tensor) else made


def created(
    op: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], dtype: DType, device: torch.device
) -> Tracked:
    """A tensor made from nothing but sizes and scalars; float scalars round to the dtype."""
    wide = torch.float64 if is_float(dtype) else TORCH[dtype]
    value = placed(op(*_mapped(args, lambda x: x.value), **{**kwargs, "dtype": wide}), device)
    zero = nothing(value)
    if not is_float(dtype):
        return Tracked(value, zero, zero, dtype)
    exact = (value == value.to(torch.float32).to(torch.float64)) | ~torch.isfinite(value)
    own = torch.where(exact, zero, 2 * accumulate_unit(dtype) * value.abs())
    return rounded(value, own, (zero, zero), dtype)
