"""What a library call returns, asked of torch's own metadata kernels. Runs in a worker child."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from workbench.errors import nearest
from workbench.model import TensorMeta
from workbench.numerics.dtypes import TORCH, name_of
from workbench.numerics.operators import DTYPES, library_operator
from workbench.problem.recurrent import WHOLE


def library_meta(op: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> tuple[TensorMeta, ...]:
    """Metadata of the results of ``aten.op[.overload]``. Raises what torch raises for bad arguments."""
    try:
        function = WHOLE.get(op) or library_operator(op)
    except AttributeError:
        raise ValueError(f"torch has no operation {op}.{_nearest(op)}") from None
    with FakeTensorMode():
        results = function(*[_fake(a) for a in args], **{k: _fake(v) for k, v in kwargs.items()})
    listed = [results] if isinstance(results, torch.Tensor) else list(results)
    return tuple(_meta(result) for result in listed)


def _nearest(op: str) -> str:
    """The operation, or the overload of a known one, whose name is closest."""
    base, _, overload = op.removeprefix("aten.").partition(".")
    if hasattr(torch.ops.aten, base):
        known = [f"aten.{base}.{name}" for name in getattr(torch.ops.aten, base).overloads()]
        return nearest(f"aten.{base}.{overload}", known)
    names = {
        name.removeprefix("aten::").partition(".")[0]
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
    }
    return nearest(f"aten.{base}", sorted(f"aten.{name}" for name in names))


def _fake(value: object) -> object:
    if isinstance(value, TensorMeta):
        return torch.empty_strided(value.shape, value.strides, dtype=TORCH[value.dtype])
    if isinstance(value, (list, tuple)):
        return [_fake(v) for v in value]
    return DTYPES.get(value, value) if isinstance(value, str) else value


def _meta(result: object) -> TensorMeta:
    if not isinstance(result, torch.Tensor):
        raise ValueError(f"it returns {type(result).__name__}, and a plan knows tensors only")
    return TensorMeta(dtype=name_of(result.dtype), shape=tuple(result.shape), strides=tuple(result.stride()))
