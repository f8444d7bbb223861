"""How fresh values of a tensor are drawn, learnt from the tensor the person gave.

Owns what is read off a tensor or off the call that made it. Whether a sampler suits the reference is
settled in trials.py. Runs in a worker child.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from workbench.model import Sampler

NORMAL = Sampler(kind="normal", low=0.0, high=1.0)
_READ = 2**22
"""Elements of a large tensor that are looked at."""


class Origins(TorchFunctionMode):
    """Remembers which call made a tensor, so that a huge input need not be drawn to be understood."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, tuple[Tensor, Sampler]] = {}

    def sampler(self, tensor: Tensor) -> Sampler | None:
        """How this very tensor was made; None when it came out of some other computation."""
        found = self._made.get(id(tensor))
        return found[1] if found and found[0] is tensor else None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        sampler = _of_call(name, args, kwargs)
        if name == "__setitem__":
            self._made.pop(id(args[0]), None)
        if isinstance(result, Tensor):
            # An in-place operation makes what was remembered of the tensor untrue.
            self._made.pop(id(result), None)
            if sampler is not None:
                self._made[id(result)] = (result, sampler)
        return result


def _of_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sampler | None:
    match name:
        case "randn" | "randn_like":
            return NORMAL
        case "rand" | "rand_like":
            return Sampler(kind="uniform", scalable=False)
        case "normal_":
            mean, deviation = _two(args, kwargs, ("mean", "std"))
            return Sampler(kind="normal", low=mean, high=deviation)
        case "uniform_":
            low, high = _two(args, kwargs, ("a", "b") if "tensor" in kwargs else ("from", "to"))
            return Sampler(kind="uniform", low=low, high=high, scalable=False)
        case "random_" if len(args) == 3:
            return Sampler(kind="integers", low=args[1], high=args[2], scalable=False)
        case "randint" if kwargs.get("dtype", torch.int64) in (torch.int64, torch.int32, torch.int16):
            numbers = [value for value in args if isinstance(value, int)]
            low, high = (kwargs.get("low", 0), kwargs.get("high", numbers[-1] if numbers else 2))
            low = numbers[0] if len(numbers) == 2 else low
            return Sampler(kind="integers", low=low, high=high, scalable=False)
        case _:
            return None


def _two(args: tuple[Any, ...], kwargs: dict[str, Any], names: tuple[str, str]) -> tuple[float, float]:
    """The two numbers after the tensor, by position or by name; 0 and 1 where they are left out."""
    given = [value for value in args if isinstance(value, int | float)]
    low, high = (*given, *(0.0, 1.0)[len(given) :])[:2]
    return float(kwargs.get(names[0], low)), float(kwargs.get(names[1], high))


def learn(tensor: Tensor) -> Sampler:
    """Read the range and spread off real values; of a large tensor, off its first millions."""
    flat = tensor.detach().reshape(-1)[:_READ]
    if tensor.dtype == torch.bool:
        return Sampler(kind="bools", scalable=False)
    if not tensor.dtype.is_floating_point:
        low, high = int(flat.min()), int(flat.max()) + 1
        if low < -1 and high > 0 and bool(((flat >= 0) | (flat == low)).all()):
            return Sampler(kind="labels", low=low, high=high, scalable=False)
        if (marked := _marked_above(flat)) is not None:
            return marked
        return Sampler(kind="integers", low=low, high=high, scalable=False)
    if (mask := _of_two(flat)) is not None:
        return mask
    finite = flat[flat.isfinite()].double()
    if not finite.numel():
        return NORMAL
    least, most, mean = float(finite.min()), float(finite.max()), float(finite.mean())
    if least == most:
        return _around(least)
    if _are_covariances(tensor):
        deviation = _round(float(finite.std()))
        return Sampler(kind="covariances", low=_round(mean), high=deviation, scalable=False)
    if least >= 0:
        return Sampler(kind="uniform", low=_round(least), high=_round(most), scalable=False)
    deviation = float(finite.std())
    # What a standard normal sample of this size may show by chance, three sigma, counts as standard.
    chance = max(0.1, 3 / math.sqrt(finite.numel()))
    centred = abs(mean) < chance * deviation
    unit = abs(deviation - 1) < chance
    return Sampler(
        kind="normal", low=0.0 if centred else _round(mean), high=1.0 if unit else _round(deviation)
    )


def _marked_above(flat: Tensor) -> Sampler | None:
    """Labels of which some are a number far beyond the others, as 255 in an image of 21 classes."""
    mark = flat.max()
    is_mark = flat == mark
    others = flat[~is_mark]
    if not others.numel() or int(others.min()) < 0 or int(is_mark.sum()) < _FEWEST_MARKS:
        return None
    end = int(others.max()) + 1
    return Sampler(kind="labels", low=int(mark), high=end, scalable=False) if 2 * end < int(mark) else None


def _of_two(flat: Tensor) -> Sampler | None:
    """For floats that are one of two numbers, as masks are: who looks for zeros in one must find some."""
    low, high = (float(flat.min()), float(flat.max())) if flat.numel() else (0.0, 0.0)
    if not low < high or (low == -math.inf and high == math.inf):
        return None
    only = bool(((flat == low) | (flat == high)).all())
    only = only and (flat.numel() >= _TELLING or (low, high) == (0.0, 1.0))
    return Sampler(kind="bools", low=low, high=high, scalable=False) if only else None


def _are_covariances(tensor: Tensor) -> bool:
    """True for symmetric positive definite matrices along the last two axes, not all of them diagonal."""
    if tensor.dim() < 2 or not 1 < tensor.shape[-1] == tensor.shape[-2] <= _LARGEST_COVARIANCE:
        return False
    size = tensor.shape[-1]
    some = tensor.detach().reshape(-1, size, size)[: max(_READ // size**2, 1)].double()
    if not bool(some.isfinite().all()) or not torch.equal(some, some.mT):
        return False
    beside = some - torch.diag_embed(some.diagonal(dim1=-2, dim2=-1))
    return bool(beside.any()) and not bool(torch.linalg.cholesky_ex(some)[1].any())


def in_general(sampler: Sampler) -> Sampler:
    """Any matrices in the place of covariances."""
    return sampler.model_copy(update={"kind": "normal", "scalable": True})


_LARGEST_COVARIANCE = 256
_TELLING = 16
"""Elements of which it is no chance that they are one of two numbers."""
_FEWEST_MARKS = 2
"""Labels that are one number far beyond all others."""
_FEW_WHOLE = 256
"""Whole numbers of a small range."""


def of_few_values(tensor: Tensor) -> Sampler | None:
    """For floats that are one of two numbers, such as labels of -1 and 1: these two; for integers that are
    all alike, such as a mask that leaves nothing out: these and 0, or 0 and 1; for integers of a small range,
    such as the few words that a text of a large vocabulary repeats: this range. Else None."""
    if isinstance(tensor, FakeTensor) or tensor.is_meta or tensor.dtype == torch.bool:
        return None
    flat = tensor.detach().reshape(-1)[:_READ]
    if not flat.numel():
        return None
    low, high = float(flat.min()), float(flat.max())
    if not tensor.dtype.is_floating_point:
        end = max(high, 1.0) + 1 if high >= 0 else 1.0
        if low == high:
            return Sampler(kind="integers", low=min(low, 0.0), high=end, scalable=False)
        few = high - low < _FEW_WHOLE
        return Sampler(kind="integers", low=low, high=high + 1, scalable=False) if few else None
    if low == high or not bool(((flat == low) | (flat == high)).all()):
        return None
    return Sampler(kind="bools", low=low, high=high, scalable=False)


def assumed(tensor: Tensor) -> Sampler:
    """A guess for a tensor without values: weights shrink with their fan-in, vectors are near one."""
    if tensor.dtype == torch.bool:
        return Sampler(kind="bools", scalable=False)
    if not tensor.dtype.is_floating_point:
        return Sampler(kind="integers", low=0, high=2, scalable=False)
    if tensor.ndim < 2:
        return _around(1.0)
    return Sampler(kind="normal", low=0.0, high=_round(1 / math.sqrt(tensor[0].numel())))


def as_normal(sampler: Sampler) -> Sampler:
    """Normal values of the same mean and spread as a uniform sampler's."""
    mean, deviation = (sampler.low + sampler.high) / 2, (sampler.high - sampler.low) / math.sqrt(12)
    return Sampler(kind="normal", low=_round(mean), high=_round(deviation))


def _around(value: float) -> Sampler:
    """For a constant, such as a fresh norm's weight: half to one and a half of it, or -1/2 to 1/2."""
    half = abs(value) / 2 or 0.5
    return Sampler(kind="uniform", low=value - half, high=value + half, scalable=False)


def _round(number: float) -> float:
    return float(f"{number:.3g}")
