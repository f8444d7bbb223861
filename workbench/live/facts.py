"""Facts about what a reference reads, which two copies of it can be compared by.

Owns what makes two values, two functions or two modes the same, and the words for a difference.
"""

from __future__ import annotations

import enum
import hashlib
import types
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy
import torch
from torch import Tensor

LARGEST_TENSOR = 2**20
"""Bytes; a larger one is compared by its shape: its values do not travel with a problem."""
PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, range, slice, type(...), enum.Enum),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, numpy.generic),
)
"""Values that never change in place."""
_LONGEST = 60


@dataclass(frozen=True)
class Fact:
    """What is at a place."""

    kind: Literal["value", "code", "kind", "named", "set", "mode", "hooks", "thing"]
    text: str
    """Equal for values that are the same."""
    detail: str = field(default="", compare=False)
    """Whose mode it is."""
    thing: Any = field(default=None, compare=False, repr=False)
    """What only its identity tells from another; kept, so that no other gets its number."""


def thing_fact(value: Any, state: str = "") -> Fact:
    """Something that cannot be compared with a copy; ``state`` counts its changes."""
    return Fact("thing", f"{type(value).__name__} {id(value)} {state}", thing=value)


def tensor_fact(value: Tensor) -> Fact:
    """A tensor that was built into the kernel."""
    plain = type(value) in (Tensor, torch.nn.Parameter) and value.layout == torch.strided
    if not plain or value.device.type == "meta" or value.element_size() * value.numel() > LARGEST_TENSOR:
        return thing_fact(value, "" if value.is_inference() else str(value._version))
    data = value.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy()
    return Fact("thing", f"{value.dtype} {tuple(value.shape)} {_digest(data.tobytes())}")


def array_fact(value: numpy.ndarray[Any, Any]) -> Fact:
    """An array, by its values."""
    if value.dtype.hasobject:
        return thing_fact(value)
    return Fact("thing", f"{value.dtype} {value.shape} {_digest(value.tobytes())}")


def long_fact(values: Any) -> Fact:
    """A long list or dict of plain values."""
    every = [*values.keys(), *values.values()] if isinstance(values, dict) else values
    if all(isinstance(value, PLAIN) for value in every):
        return Fact("thing", f"{len(values)} {_digest(repr(values).encode())}")
    return thing_fact(values, str(len(values)))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def code_fact(function: types.FunctionType) -> Fact:
    """What a function does, wherever it stands."""
    return Fact("code", _digest(repr(_plainly(function.__code__)).encode()))


def _plainly(value: Any) -> Any:
    """Code without its lines, so that the same text elsewhere is the same."""
    if isinstance(value, types.CodeType):
        names = (value.co_names, value.co_varnames, value.co_freevars, value.co_argcount)
        return (value.co_code, names, [_plainly(constant) for constant in value.co_consts])
    if isinstance(value, tuple):
        return [_plainly(one) for one in value]
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value


def difference(path: str, made: Fact | None, now: Fact | None) -> str:
    """Why a kernel does not answer: the fact it was made for, and the one there is now."""
    if now is None:
        return f"{path} is gone; the kernel was made for {_words(made)}"
    if made is None:
        return f"{path} is new: {_words(now)}; the kernel was made without it"
    if now.kind == made.kind == "code":
        return f"{path} was redefined; the kernel was made for what it did before"
    if now.kind == "mode":
        return f"{now.detail} is in {_MODES[now.text]} mode; the kernel is of {_MODES[made.text]} mode"
    if now.kind == made.kind == "thing":
        return f"{path} has other values; the kernel has those of before built in"
    if now.kind == "hooks":
        return f"{path}: {now.text}; the kernel was made for {made.text}"
    return f"{path} is {_words(now)}; the kernel was made for {_words(made)}"


_MODES = {"True": "training", "False": "evaluation"}


def _words(fact: Fact | None) -> str:
    if fact is None:
        return "nothing"
    if fact.kind == "code":
        return "a function"
    if fact.kind == "thing":
        return "something else"
    return fact.text if len(fact.text) <= _LONGEST else f"{fact.text[: _LONGEST - 3]}..."
