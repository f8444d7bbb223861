"""Recurrent layers as one operation each: torch's own composition of them is a node a step.

Owns what stands for them while a reference is traced, and the shapes of their results. A library makes them
whole; step by step, 512 steps of six layers take minutes to trace, and the graph holds tens of thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_ONE_STATE = (
    "(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first) -> (Tensor, Tensor)"
)
_SCHEMAS = {
    "gru": _ONE_STATE,
    "rnn_tanh": _ONE_STATE,
    "rnn_relu": _ONE_STATE,
    "lstm": _ONE_STATE.replace("Tensor hx,", "Tensor[] hx,").replace(
        "(Tensor, Tensor)", "(Tensor, Tensor, Tensor)"
    ),
}
_LIBRARY = torch.library.Library("workbench", "DEF")  # type: ignore[no-untyped-call]


def _imitated(input: Tensor, hx: Tensor | Sequence[Tensor], *rest: Any) -> tuple[Tensor, ...]:
    """What comes of a layer, as it lies: (T, B, D H) whatever the order of the axes, and the last states."""
    bidirectional, batch_first = rest[-2:]
    states = [hx] if isinstance(hx, Tensor) else hx
    batch, length = (input.shape[0], input.shape[1]) if batch_first else (input.shape[1], input.shape[0])
    output = input.new_empty((length, batch, states[0].shape[-1] * (2 if bidirectional else 1)))
    last = [state.new_empty(state.shape) for state in states]
    return (output.transpose(0, 1) if batch_first else output, *last)


for _name, _schema in _SCHEMAS.items():
    _LIBRARY.define(f"{_name}{_schema}")  # type: ignore[no-untyped-call]
    _kernel = getattr(torch.ops.aten, _name).input
    _LIBRARY.impl(_name, _kernel, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"workbench::{_name}", _imitated, lib=_LIBRARY)

WHOLE: Mapping[str, Callable[..., Any]] = {
    f"aten.{name}.input": getattr(torch.ops.workbench, name).default for name in _SCHEMAS
}
"""The stand-in of each of torch's operations: the same arguments, the same results, no steps within."""
NAMES: Mapping[str, str] = {f"workbench.{name}.default": f"aten.{name}.input" for name in _SCHEMAS}
"""What a stand-in is called in a graph."""
_ARGUMENTS = 9
_STANDING_IN = {getattr(torch, name): getattr(torch.ops.workbench, name).default for name in _SCHEMAS}


def whole(func: Any, args: Sequence[Any]) -> Any:
    """What is called in place of a function of torch's: the stand-in of a recurrent layer, else itself.

    Torch's own with packed sequences, whose second argument is how many there are at each step, and with
    dropout, which draws random numbers.
    """
    if func not in _STANDING_IN or len(args) != _ARGUMENTS or isinstance(args[3], (list, tuple)):
        return func
    return func if args[5] and args[6] else _STANDING_IN[func]


class Whole(TorchFunctionMode):
    """Recurrent layers are not gone through step by step: for running without data, where steps take long."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return whole(func, args)(*args, **(kwargs or {}))
