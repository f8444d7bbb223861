"""Objects of the notebook on their way to a worker: modules by name, values by cloudpickle.

Owns packing (notebook process, imports no torch of its own) and unpacking (worker). Large tensors
travel as a recipe for random values of the same distribution, because the referee draws fresh ones
anyway. Only the parent packs and only a child unpacks.
"""

from __future__ import annotations

import base64
import importlib
import io
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import cloudpickle

from workbench.errors import ProblemError

LARGEST_TENSOR = 2**20
"""Bytes; larger tensors travel without their values."""


@dataclass(frozen=True)
class Payload:
    """What the person's code needs from outside its own text."""

    values: Mapping[str, Any] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    """Alias to module name."""
    folders: tuple[str, ...] = ()
    """Folders to import the person's own modules from, beside the worker's import path."""


def split(objects: Mapping[str, Any], folders: tuple[str, ...] = ()) -> Payload:
    """Tell modules, which travel by name, from values, which travel by content."""
    modules = {k: v.__name__ for k, v in objects.items() if isinstance(v, ModuleType)}
    return Payload({k: v for k, v in objects.items() if k not in modules}, modules, folders)


def pack(payload: Payload) -> str:
    """Encode for ``Problem.payload``; an empty payload is an empty string.

    Raises ``ProblemError`` naming the object that cannot leave the notebook.
    """
    if not (payload.values or payload.modules or payload.folders):
        return ""
    try:
        values = _dumps(dict(payload.values))
    except Exception as error:
        culprit = next(
            (name for name, value in payload.values.items() if not _can_travel(value)), "an object"
        )
        raise ProblemError(f"{culprit} cannot be sent to a worker process: {error}") from error
    return base64.b64encode(pickle.dumps((payload.folders, dict(payload.modules), values))).decode()


def unpack(text: str) -> dict[str, Any]:
    """In a worker: values and imported modules, by the names the person's code uses."""
    if not text:
        return {}
    folders, modules, values = pickle.loads(base64.b64decode(text))
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    names = {alias: importlib.import_module(name) for alias, name in modules.items()}
    return {**names, **pickle.loads(values)}


def carries(text: str) -> str:
    """What a payload holds that stands in no text, in words for people; empty for nothing.

    Values are not unpacked.
    """
    if not text:
        return ""
    folders, modules, values = pickle.loads(base64.b64decode(text))
    if modules:
        return f"module {next(iter(modules))}"
    if values != _dumps({}):
        return "an object of the notebook"
    return f"a module in {folders[0]}" if folders else ""


def _can_travel(value: Any) -> bool:
    try:
        _dumps(value)
    except Exception:
        return False
    return True


# ------------------------------------------------------------------------------------ tensors


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Tensors go by value and without their device, which a worker may lack."""

    def reducer_override(self, obj: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and type(obj) is torch.Tensor and obj.layout is torch.strided:
            tensor = obj.detach()
            layout = (str(tensor.dtype), tuple(tensor.shape), tuple(tensor.stride()))
            if tensor.element_size() * tensor.numel() <= LARGEST_TENSOR and tensor.device.type != "meta":
                return restore, (*layout, tensor.cpu().reshape(-1).tolist())
            return stand_in, (*layout, *_recipe(tensor))
        return super().reducer_override(obj)


def _dumps(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


def _recipe(tensor: Any) -> tuple[str, float, float]:
    from workbench.problem.samplers import assumed, learn  # torch is loaded: the person has a tensor

    if tensor.dtype.is_complex:
        return "normal", 0.0, 1.0
    sampler = assumed(tensor) if tensor.device.type == "meta" else learn(tensor.cpu())
    return sampler.kind, sampler.low, sampler.high


def restore(dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], values: list[Any]) -> Any:
    """A small tensor, on the CPU."""
    import torch

    kind = getattr(torch, dtype.removeprefix("torch."))
    return _laid_out(shape, strides, kind).copy_(torch.tensor(values, dtype=kind).reshape(shape))


def stand_in(
    dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], sampler: str, low: float, high: float
) -> Any:
    """A tensor like one that was too large to send, drawn from a sampler's kind and range."""
    import torch

    from workbench.numerics.inputs import covariances_of

    result = _laid_out(shape, strides, getattr(torch, dtype.removeprefix("torch.")))
    match sampler:
        case "bools":
            return result.bernoulli_(0.5)
        case "integers":
            return result.random_(int(low), int(high))
        case "uniform":
            return result.uniform_(low, high)
        case "covariances":
            return result.copy_(high * covariances_of(torch.randn(shape)))
        case _:
            return result.normal_(low, high)


def _laid_out(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
    """An uninitialised tensor; elements that shared an address get one each."""
    import torch

    overlaps = any(stride == 0 and size > 1 for size, stride in zip(shape, strides, strict=True))
    if overlaps:
        return torch.empty(shape, dtype=dtype)
    return torch.empty_strided(shape, strides, dtype=dtype)
