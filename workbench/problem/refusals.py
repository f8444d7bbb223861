"""What a reference must not do, and the sentence that says so.

Owns the checks of inputs and of what a reference returns, and the watch on a running reference. Runs
in a worker child, on fake or real tensors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode

from workbench.errors import ProblemError
from workbench.numerics.dtypes import NAMES
from workbench.problem.form import Argument, Held
from workbench.problem.lines import is_persons
from workbench.problem.results import together

_IN_PARTS = " Write it with real and imaginary parts."
_AS_BYTES = " Convert it before this is called, or hand over its bytes, .view(torch.uint8), and unpack those."
_RETURNS = "a tensor, or tensors in tuples, lists, dicts or dataclasses"
_SUPPORTED = "float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8 and bool"


def check_inputs(arguments: Sequence[Argument], on_meta: str = "meta") -> None:
    """Refuse inputs on several devices, without values, of unsupported types, empty, sparse, or none at all.

    ``on_meta`` is what the meta device stands for: under fake tensors ``cuda``, see running.Placed.
    """
    tensors = {a.name: a.value for a in arguments if a.is_tensor}
    if not tensors:
        raise ProblemError("none of the inputs is a tensor: inputs = [torch.randn(4096, 1024)]")
    places = {name: on_meta if t.device.type == "meta" else str(t.device) for name, t in tensors.items()}
    if len(set(places.values())) > 1:
        told = ", ".join(f"{name} on {place}" for name, place in places.items())
        raise ProblemError(f"the inputs are on different devices: {told}. Put them on one.")
    for name, tensor in tensors.items():
        _refuse_without_values(f"input {name!r}", tensor, on_meta)
        check_tensor(f"input {name!r}", tensor)


def check_held(held: Mapping[str, Held], on_meta: str = "meta") -> None:
    """The same for parameters and buffers."""
    for tensor in held.values():
        if is_lazy(tensor.value):
            raise ProblemError(
                f"{tensor.role} {tensor.path!r} has no size yet: the module is a lazy one. Call it once on "
                "an input in the cell, or write the module that has its sizes."
            )
        _refuse_without_values(f"{tensor.role} {tensor.path!r}", tensor.value, on_meta)
        check_tensor(f"{tensor.role} {tensor.path!r}", tensor.value)


def _refuse_without_values(what: str, tensor: Tensor, on_meta: str) -> None:
    if on_meta == "meta" and tensor.device.type == "meta":
        raise ProblemError(
            f"{what} is on the meta device: it has a shape and no values. Leave out device='meta'; large "
            "inputs that are drawn at random are not held in memory either."
        )


def check_tensor(what: str, tensor: Tensor) -> None:
    """Refuse one tensor the workbench cannot handle."""
    if tensor.dtype not in (*NAMES, torch.complex64, torch.complex128):
        dtype = str(tensor.dtype).removeprefix("torch.")
        instead = _IN_PARTS if tensor.dtype.is_complex else _AS_BYTES if tensor.dtype.itemsize == 1 else ""
        raise ProblemError(f"{what} is {dtype}, which is not supported. Supported are {_SUPPORTED}.{instead}")
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise ProblemError(f"{what} is sparse or nested; only dense tensors are supported. Call .to_dense().")
    if tensor.numel() == 0:
        shape = tuple(tensor.shape)
        raise ProblemError(f"{what} is empty, shape {shape}: there is nothing to compute. Give it elements.")


def check_outputs(value: Any) -> tuple[Tensor, ...]:
    """The tensors a reference returned, in order. Refuses everything else, with what it was."""
    value = together(value)
    results = tuple(value) if isinstance(value, tuple | list) else (value,)
    for result in results:
        if not isinstance(result, Tensor):
            what = "nothing" if value is None else _described(value)
            raise ProblemError(f"the reference returns {what}; return {_RETURNS}.")
    if not results:
        raise ProblemError(f"the reference returns an empty tuple; return {_RETURNS}.")
    for index, result in enumerate(results):
        check_tensor("the output" if len(results) == 1 else f"output {index}", result)
    return results


def _kind(value: Any) -> str:
    """A tensor is one, whatever stands in for it while its shape alone is asked for."""
    return "Tensor" if isinstance(value, Tensor) else type(value).__name__


def _described(value: Any) -> str:
    if isinstance(value, tuple | list):
        kinds = ", ".join(map(_kind, value))
        return f"a {type(value).__name__} of ({kinds})"
    if isinstance(value, dict) and value:
        kinds = ", ".join(f"{name!r}: {_kind(one)}" for name, one in value.items())
        return f"a {type(value).__name__} of ({kinds})"
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return f"{article} {type(value).__name__}"


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses, at the person's line, operations that write a given tensor or draw random numbers."""

    def __init__(self, tensors: Mapping[str, Tensor], roles: Mapping[str, str] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        roles = roles or {}
        self._owners = {
            _storage(tensor): f"{roles.get(name, 'input')} {name!r}" for name, tensor in tensors.items()
        }

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and _draws(func, args, kwargs):
            raise ProblemError(
                f"{_here()}the reference draws random numbers ({_name(func)}), which a kernel cannot repeat. "
                "Pass them as an input, or switch dropout off."
            )
        if func._schema.is_mutable:
            self._check_writes(func, args, kwargs)
        made = func(*args, **kwargs)
        if func is torch.ops.aten.bincount.default:
            _check_counts(len(made), (*args, *kwargs.values()))
        return made

    def _check_writes(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for index, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            owner = self._owners.get(_storage(value)) if isinstance(value, Tensor) else None
            if owner is not None:
                raise ProblemError(
                    f"{_here()}the reference writes its {owner} in place ({_name(func)}). "
                    "Use the form that returns a new tensor, or clone first."
                )


def _check_counts(found: int, arguments: Sequence[Any]) -> None:
    """Counts are as many as was asked for: what is traced in their place has no others."""
    asked = max((n for n in arguments if isinstance(n, int)), default=0)
    if found > asked > 0:
        raise ProblemError(
            f"{_here()}torch.bincount meets {found - 1}, beyond its minlength of {asked}: how many it "
            f"returns depends on values. Pass minlength={found}, or as many as there can be."
        )


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _draws(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Operations carry the tag of random ones even when their dropout or training mode is off."""
    for index, argument in enumerate(func._schema.arguments):
        if argument.name in ("dropout_p", "training"):
            given = args[index] if index < len(args) else kwargs.get(argument.name, argument.default_value)
            return bool(given)
    return True


def _name(func: Callable[..., Any]) -> str:
    return str(func).rpartition(".")[0].removesuffix("_")


def _here() -> str:
    frame = sys._getframe(1)
    while frame is not None:
        if is_persons(frame.f_code.co_filename):
            return f"line {frame.f_lineno}: "
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return ""
