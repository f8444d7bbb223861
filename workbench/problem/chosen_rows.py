"""Rows that a mask chooses, traced without choosing any: all rows, and the mask, until they come together.

How many rows ``x[mask]`` has only its values tell, and no graph of sizes can have it. What people do with
such rows seldom needs that number: they compute with each row alone, put the rows back where they were taken
from (``y[mask] = f(x[mask])``), or reduce all of them to one (``loss[mask].mean()``). The first is done with
all rows here, the second is a choice between two tensors, and in the third the others are left out as what
changes nothing. Anything else gets the rows themselves, and the refusal that they lead to. Runs while a
reference is exported; the reference itself still runs as it is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from workbench.errors import ProblemError
from workbench.problem.lines import Place, call_at, persons_frame, place_of

_ELEMENTWISE = frozenset(
    [
        "float", "double", "half", "bfloat16", "to", "type_as", "clone", "contiguous", "detach", "where",
        "square", "absolute", "clip", "truediv", "rtruediv", "rdiv", "rmul", "radd", "rsub", "rpow", "invert",
        "and", "or", "xor", "relu", "gelu", "silu", "softplus", "elu", "leaky_relu", "hardtanh", "relu6",
        "nan_to_num", "logit",
    ]
)  # fmt: skip
"""Functions of elements, by name, that torch does not mark as such."""
_DIVIDES = frozenset(["div", "truediv", "floordiv", "floor_divide", "remainder", "mod", "fmod"])
_ROWWISE = frozenset(
    [
        "sum", "mean", "amax", "amin", "prod", "std", "var", "norm", "softmax", "log_softmax", "logsumexp",
        "argmax", "argmin", "cumsum", "all", "any", "max", "min", "normalize",
    ]
)  # fmt: skip
"""Functions along axes, which may be those of a row."""
_WITHIN: Mapping[str, tuple[int, Any]] = {
    **dict.fromkeys(["unsqueeze", "squeeze", "gather", "index_select"], (1, None)),
    **dict.fromkeys(["unbind", "cat", "concat", "stack", "flatten"], (1, 0)),
    **dict.fromkeys(["chunk", "split"], (2, 0)),
}
"""Functions that leave rows what they are where they go along another axis: which of their arguments says so,
and which it is where none does."""
_OF_ROWS = frozenset(["linear", "matmul", "layer_norm", "rms_norm"])
"""Functions of each row of their first argument."""
_LOSSES = frozenset(
    [
        F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy,
        F.binary_cross_entropy_with_logits, F.cross_entropy,
    ]
)  # fmt: skip
_OF_LOSSES = frozenset(["label_smoothing", "beta", "delta", "ignore_index"])
"""What they may be told, beside how they are reduced."""
_WRITTEN = (
    "line {line}: rows that a mask chooses here are written in place. "
    "Make new ones: torch.where(mask, new, x)"
)
"""What would be lost in a copy of them."""
_KNOWN = frozenset(["dtype", "device", "ndim", "dim", "is_floating_point", "is_complex", "is_cuda", "layout"])
"""What all rows have as those that are chosen have it."""


class Chosen(Tensor):
    """Rows of ``rows`` (M, ...) where ``kept`` (M,) holds: of a tensor whose leading axes are the mask's."""

    rows: Tensor
    kept: Tensor
    by: Hashable
    """Which mask it was: the same one puts the rows back where they belong."""
    line: Place | None
    """Where they were chosen."""
    axis: tuple[Tensor, int] | None
    """Of places where a mask holds, as ``torch.where(mask)`` gives them: the mask, and along which of its
    axes."""

    @staticmethod
    def of(
        rows: Tensor,
        kept: Tensor,
        by: Hashable,
        line: Place | None,
        axis: tuple[Tensor, int] | None = None,
    ) -> Chosen:
        """A tensor without elements that stands for them."""
        made: Chosen = Tensor._make_wrapper_subclass(Chosen, (0,))
        made.rows, made.kept, made.by, made.line, made.axis = rows, kept, by, line, axis
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise NotImplementedError(f"{func} of rows that a mask chooses")

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            found = list(_chosen_in((args, kwargs)))
            if all(one.by == found[0].by for one in found):
                made = _followed(func, found[0], args, kwargs)
                if made is not None:
                    return made
            if _writes(func) and args and isinstance(args[0], Chosen):
                raise ProblemError(_WRITTEN.format(line=args[0].line[1] if args[0].line else "?"))
            return func(*_each(args, Chosen.taken), **_each(kwargs, Chosen.taken))

    def taken(self) -> Tensor:
        """The rows themselves, so many that only values tell."""
        rows: Tensor = call_at(self.line, torch.ops.aten.index.Tensor, (self.rows, [self.kept]), {})
        return rows

    def wide(self) -> Tensor:
        """``kept`` for elements."""
        return self.kept.reshape(-1, *[1] * (self.rows.ndim - 1))

    def but(self, rows: Tensor) -> Chosen:
        """Others in the same places."""
        return Chosen.of(rows, self.kept, self.by, self.line)


class Masks:
    """Masks of one export: which are made in the same way of the same values, and what they choose."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Tensor, int, Hashable]] = {}
        """By identity: a mask, its version, and how it was made."""
        self._alive: list[Any] = []
        """What identities are of."""

    def made(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Remember how a mask was made. Its identity tells where that can't be said in short."""
        if not _is_mask(result) or kwargs:
            return
        parts = [self._part(one) for one in args]
        if all(part is not None for part in parts):
            self._alive += args
            self._made[id(result)] = (result, result._version, (_name(func), *parts))

    def _part(self, arg: Any) -> Hashable:
        if isinstance(arg, Chosen):
            return None
        if isinstance(arg, Tensor):
            return self.place(arg)
        return (type(arg), arg) if isinstance(arg, (bool, int, float)) else None

    def place(self, tensor: Tensor) -> Hashable:
        """What two tensors have in common that are the same at all values."""
        mask, version, recipe = self._made.get(id(tensor), (None, 0, None))
        if mask is tensor and version == tensor._version:
            return recipe
        self._alive.append(tensor)
        return id(tensor), tensor._version

    def _asked(self, index: Any) -> tuple[Tensor, Hashable] | None:
        """The mask that an index is, or that it has all places of; and what that is known by."""
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) == 1 and _is_mask(parts[0]):
            return parts[0], self.place(parts[0])
        axes = [part.axis for part in parts if isinstance(part, Chosen) and part.axis is not None]
        if not parts or len(axes) < len(parts) or len({part.by for part in parts}) > 1:
            return None
        mask = axes[0][0]
        return (mask, parts[0].by) if [axis for _, axis in axes] == list(range(mask.ndim)) else None

    def rows_of(self, tensor: Tensor, index: Any) -> Any:
        """``tensor[index]``: where that is a mask, what stands for the rows that it chooses."""
        asked = None if isinstance(tensor, Chosen) else self._asked(index)
        if asked is None or not 0 < asked[0].ndim <= tensor.ndim:
            return tensor[index]
        mask, by = asked
        rows = tensor.clone()  # what becomes of the tensor later is not theirs
        rows = rows if mask.ndim == 1 else rows.flatten(0, mask.ndim - 1)
        return Chosen.of(rows, mask.clone().reshape(-1), by, place_of(persons_frame()))

    def where(self, condition: Tensor, *values: Any, **named: Any) -> Any:
        """``torch.where``; of a mask alone, the places where it holds."""
        if values or named or not _is_mask(condition) or not condition.ndim:
            return torch.where(condition, *values, **named)
        return self._places(condition)

    def nonzero(self, input: Tensor, *, as_tuple: bool = False) -> Any:
        """The same; a table of places has a size of its own."""
        if as_tuple and _is_mask(input) and input.ndim:
            return self._places(input)
        return torch.nonzero(input, as_tuple=True) if as_tuple else torch.nonzero(input)

    def _places(self, mask: Tensor) -> tuple[Chosen, ...]:
        by, line, own = self.place(mask), place_of(persons_frame()), mask.clone()
        found = []
        for axis, size in enumerate(mask.shape):
            along = [-1 if other == axis else 1 for other in range(mask.ndim)]
            rows = torch.arange(size, device=mask.device).view(along).expand(mask.shape).reshape(-1)
            found.append(Chosen.of(rows, own.reshape(-1), by, line, (own, axis)))
        return tuple(found)

    def selected(self, input: Tensor, mask: Tensor) -> Any:
        """``masked_select``: the elements that a mask of the tensor's shape chooses."""
        if _is_mask(mask) and not isinstance(input, Chosen) and input.ndim == mask.ndim:
            return self.rows_of(input, mask)
        return torch.masked_select(input, mask)

    def put(self, tensor: Tensor, index: Any, value: Any) -> None:
        """``tensor[index] = value``: rows go back to where they were chosen by the same mask."""
        asked = None if isinstance(tensor, Chosen) else self._asked(index)
        if asked is None or asked[0].ndim > tensor.ndim:
            tensor[index] = _each(value, Chosen.taken)
            return
        mask, by = asked
        if not isinstance(value, Chosen):
            tensor[mask] = value
            return
        if value.by != by or value.rows.ndim - 1 != tensor.ndim - mask.ndim:
            tensor[mask] = value.taken()
            return
        wide = mask.reshape(*mask.shape, *[1] * (tensor.ndim - mask.ndim))
        rows = value.rows.reshape(*mask.shape, *value.rows.shape[1:])
        tensor.copy_(torch.where(wide, rows.to(tensor.dtype), tensor))


def without_chosen(result: Any) -> Any:
    """What a reference returns, its rows as they are."""
    return _each(result, Chosen.taken)


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and not isinstance(index, Chosen) and index.dtype == torch.bool


def _chosen_in(value: Any) -> Iterator[Chosen]:
    if isinstance(value, Chosen):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _chosen_in(one)
    elif isinstance(value, Mapping):
        yield from _chosen_in(list(value.values()))


def _each(value: Any, made: Callable[[Chosen], Any]) -> Any:
    """The value with something else for the rows in it."""
    if isinstance(value, Chosen):
        return made(value)
    if type(value) in (list, tuple):
        return type(value)(_each(one, made) for one in value)
    return {key: _each(one, made) for key, one in value.items()} if isinstance(value, dict) else value


# ------------------------------------------------------------------------------------ what is done with them


def _followed(func: Any, first: Chosen, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function makes of chosen rows; None where their number counts, or nobody knows."""
    name = _name(func)
    if name in _KNOWN:
        return func(*_each(args, lambda one: one.rows), **kwargs)
    if name in ("numel", "nelement"):
        return first.kept.sum() * math.prod(first.rows.shape[1:])
    if name in ("shape", "size"):
        sizes = (first.kept.sum(), *first.rows.shape[1:])
        axis = args[1] if len(args) > 1 else kwargs.get("dim")
        return sizes if axis is None else sizes[axis]
    if name in _OF_ROWS:
        return _of_rows(func, name, first, args, kwargs)
    if func in _LOSSES:
        return _loss(func, first, args, kwargs)
    if name.removesuffix("_") == name and name in _ROWWISE:
        return _along_rows(func, name, first, args, kwargs)
    if name in _WITHIN:
        return _within(func, name, first, args, kwargs)
    if name == "getitem":
        return _columns(first, args)
    plain = name.removeprefix("i") if name.startswith("i") and _is_elementwise(name[1:]) else name
    if not _is_elementwise(plain.removesuffix("_")) or not _are_alike(first, args, kwargs):
        return None
    if plain.removesuffix("_") in _DIVIDES and not first.rows.is_floating_point():
        return None  # a row that is not chosen may be divided by 0
    in_place = plain != name or name.endswith("_")
    called = _out_of_place(func, plain.removesuffix("_")) if in_place else func
    rows = called(*_each(args, lambda one: one.rows), **_each(kwargs, lambda one: one.rows))
    if rows.ndim != first.rows.ndim:
        return None
    if not in_place:
        return first.but(rows)
    target = args[0]
    if not isinstance(target, Chosen):
        return None
    target.rows = rows.to(target.rows.dtype)
    return target


def _name(func: Any) -> str:
    """Of a function, a method, an operator, or what is read of a tensor."""
    own = getattr(func, "__name__", "")
    if own in ("__get__", "__set__"):
        return str(getattr(func.__self__, "__name__", ""))
    return str(own.strip("_") if own.startswith("__") else own)


def _writes(func: Any) -> bool:
    """True for what changes its first argument and would change a copy of chosen rows."""
    name = getattr(func, "__name__", "")
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


@cache
def _is_elementwise(name: str) -> bool:
    packet = getattr(torch.ops.aten, name, None) if name else None
    overloads = packet.overloads() if packet is not None else []
    marked = any(torch.Tag.pointwise in getattr(packet, one).tags for one in overloads)
    return marked or name in _ELEMENTWISE


def _out_of_place(func: Any, name: str) -> Any:
    made = getattr(torch.Tensor, name, None) or getattr(torch.Tensor, f"__{name}__", None)
    return made if made is not None else func


def _are_alike(first: Chosen, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True where other tensors are the same for all rows, and rows have as many axes as each other."""
    if len({one.rows.ndim for one in _chosen_in((args, kwargs))}) > 1:
        return False
    others = [one for one in (*args, *kwargs.values()) if isinstance(one, Tensor)]
    others = [one for one in others if not isinstance(one, Chosen)]
    return all(one.ndim < first.rows.ndim for one in others)


def _of_rows(func: Any, name: str, first: Chosen, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A row times a matrix, or normalised."""
    if args[0] is not first or len(list(_chosen_in((args, kwargs)))) > 1 or first.rows.ndim < 2:
        return None
    if name == "matmul" and args[1].ndim > 2:
        return None
    if name.endswith("_norm") and len(args[1]) >= first.rows.ndim:
        return None
    return first.but(func(first.rows, *args[1:], **kwargs))


def _within(func: Any, name: str, first: Chosen, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Within each row. Labels of rows that are not chosen may be none."""
    at, otherwise = _WITHIN[name]
    named = "start_dim" if name == "flatten" else "dim"
    dim = args[at] if len(args) > at else kwargs.get(named, otherwise)
    parts = args[0] if isinstance(args[0], (list, tuple)) else [args[0], *args[at + 1 :], *kwargs.values()]
    tensors = [one for one in parts if isinstance(one, Tensor)]
    if not isinstance(dim, int) or not all(isinstance(one, Chosen) for one in tensors):
        return None
    if dim % (first.rows.ndim + (name in ("unsqueeze", "stack"))) == 0:
        return None

    def whole(one: Chosen) -> Tensor:
        return one.rows if one.rows.is_floating_point() else _filled(one, 0)

    made = func(*_each(args, whole), **_each(kwargs, whole))
    return first.but(made) if isinstance(made, Tensor) else tuple(map(first.but, made))


def _columns(first: Chosen, args: tuple[Any, ...]) -> Any:
    """The same columns of all rows."""
    index = args[1]
    if not isinstance(args[0], Chosen) or not isinstance(index, tuple) or len(index) < 2:
        return None
    if first.rows.ndim < 2 or any(isinstance(one, Tensor) for one in index):
        return None
    ahead = index[0] == slice(None) or (index[0] is Ellipsis and len(index) <= first.rows.ndim)
    return first.but(first.rows[index]) if ahead else None


def _along_rows(func: Any, name: str, first: Chosen, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A reduction, or what goes along an axis: within each row, or over all rows."""
    if any(isinstance(one, Tensor) for one in (*args[1:], *kwargs.values())):
        return None
    dim = kwargs.get("dim", kwargs.get("axis", _dim_among(name, args)))
    if dim is None and name == "normalize":
        dim = 1
    if isinstance(dim, bool):  # whether a deviation is unbiased
        return None
    axes = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if axes and all(axis % first.rows.ndim != 0 for axis in axes):
        made = func(first.rows, *args[1:], **kwargs)
        return first.but(made) if isinstance(made, Tensor) else type(made)(map(first.but, made))
    if name not in _OVER_ALL or len(axes) > 1 or (axes and name in ("max", "min")):
        return None
    extra = {key: value for key, value in kwargs.items() if key not in ("dim", "axis")}
    given = args[1 + bool(axes and "dim" not in kwargs and "axis" not in kwargs) :]
    if given or not extra.keys() <= _OVER_ALL_TAKES.get(name, frozenset()):
        return None
    return _OVER_ALL[name](first, (0,) if axes else tuple(range(first.rows.ndim)), **extra)


def _dim_among(name: str, args: tuple[Any, ...]) -> Any:
    at = 2 if name in ("norm", "normalize") else 1
    return args[at] if len(args) > at else None


def _filled(first: Chosen, number: Any) -> Tensor:
    """All rows, and a number for those that are not chosen."""
    return torch.where(first.wide(), first.rows, torch.full_like(first.rows, number))


def _count(first: Chosen, axes: tuple[int, ...]) -> Tensor:
    return first.kept.sum() * math.prod(first.rows.shape[axis] for axis in axes[1:])


def _sum(first: Chosen, axes: tuple[int, ...], dtype: Any = None) -> Tensor:
    return _filled(first, 0).sum(axes, dtype=dtype)


def _mean(first: Chosen, axes: tuple[int, ...]) -> Tensor:
    return _sum(first, axes) / _count(first, axes)


def _var(first: Chosen, axes: tuple[int, ...], correction: int = 1, unbiased: bool = True) -> Tensor:
    away = first.rows - _mean(first, axes)
    squares = _sum(first.but(away.square()), axes)
    return squares / (_count(first, axes) - (correction if unbiased else 0)).clamp(min=0)


def _std(first: Chosen, axes: tuple[int, ...], correction: int = 1, unbiased: bool = True) -> Tensor:
    return _var(first, axes, correction, unbiased).sqrt()


def _least(first: Chosen) -> Any:
    kind = first.rows.dtype
    if kind == torch.bool:
        return False
    return -math.inf if kind.is_floating_point else torch.iinfo(kind).min


def _most(first: Chosen) -> Any:
    kind = first.rows.dtype
    if kind == torch.bool:
        return True
    return math.inf if kind.is_floating_point else torch.iinfo(kind).max


_OVER_ALL: Mapping[str, Callable[..., Tensor]] = {
    "sum": _sum,
    "mean": _mean,
    "var": _var,
    "std": _std,
    "max": lambda first, axes: _filled(first, _least(first)).amax(axes),
    "min": lambda first, axes: _filled(first, _most(first)).amin(axes),
    "amax": lambda first, axes: _filled(first, _least(first)).amax(axes),
    "amin": lambda first, axes: _filled(first, _most(first)).amin(axes),
    "any": lambda first, axes: _filled(first, 0).bool().any(axes),
    "all": lambda first, axes: _filled(first, 1).bool().all(axes),
}
_OVER_ALL_TAKES: Mapping[str, frozenset[str]] = {
    "sum": frozenset(["dtype"]),
    "var": frozenset(["correction", "unbiased"]),
    "std": frozenset(["correction", "unbiased"]),
}


def _loss(func: Any, first: Chosen, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Of each row, then of those that are chosen; labels of rows that are not may be none."""
    own = {key: value for key, value in kwargs.items() if value is not None and key != "reduction"}
    kind = kwargs.get("reduction", "mean")
    if len(args) != 2 or not all(isinstance(one, Chosen) for one in args) or not own.keys() <= _OF_LOSSES:
        return None
    both = [one.rows if one.rows.is_floating_point() else _filled(one, 0) for one in args]
    each = first.but(func(*both, reduction="none", **own))
    if kind == "none":
        return each
    if func is F.cross_entropy and both[1].ndim == 1:
        each.kept = each.kept & both[1].ne(own.get("ignore_index", -100))
    axes = tuple(range(each.rows.ndim))
    return _mean(each, axes) if kind == "mean" else _sum(each, axes)
