"""Library steps of a plan as calls of torch: operands found, handed over aligned, results held to the plan.

Never chooses an operation or a precision: the plan names the one, the device sets the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from workbench.errors import GpuError
from workbench.numerics.operators import DTYPES, library_operator
from workbench.plan.steps import BufferArg, Library

ALIGNMENT = 16
"""Bytes: the widest load of a thread."""


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy with its strides where its first element is not at a multiple of 16 bytes.

    Some checks begin inputs inside of their storage, and a library kernel that loads 16 bytes at once would
    fault there, which costs the process its context. Attention faulted so on an H100, and with these copies
    still: there it was the reference (``gpu_expectation.py``). That a product would is not proved.
    """
    if tensor.data_ptr() % ALIGNMENT == 0 or not tensor.numel():
        return tensor
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    room = torch.empty(span, dtype=tensor.dtype, device=tensor.device)
    room.copy_(tensor.as_strided((span,), (1,)))
    return room.as_strided(tensor.shape, tensor.stride())


def lies_like(tensor: torch.Tensor, strides: Sequence[int]) -> bool:
    """True for these strides; those of an axis with one element say nothing."""
    steps = zip(tensor.shape, tensor.stride(), strides, strict=True)
    return all(size == 1 or mine == planned for size, mine, planned in steps)


def library_call(step: Library, indices: dict[str, int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What calls the step's operation on tensors of the plan, found by their ``indices`` in a sequence.

    Raises GpuError where the results are not laid out as the plan says.
    """
    function = library_operator(step.op)

    def found(value: Any) -> Callable[[Sequence[Any]], Any]:
        if isinstance(value, BufferArg):
            index = indices[value.buffer]
            return lambda values: aligned(values[index])
        if isinstance(value, tuple):
            parts = [found(part) for part in value]
            return lambda values: [part(values) for part in parts]
        constant = DTYPES.get(value, value) if isinstance(value, str) else value
        return lambda values: constant

    args = [found(value) for value in step.args]
    kwargs = {name: found(value) for name, value in step.kwargs}

    def call(values: Sequence[Any]) -> tuple[Any, ...]:
        result = function(*[a(values) for a in args], **{name: a(values) for name, a in kwargs.items()})
        results = tuple(result) if isinstance(result, tuple | list) else (result,)
        for tensor, meta in zip(results, step.metas, strict=True):
            # Later steps were laid out for these strides: a kernel must not read past them.
            if tensor.shape != meta.shape or not lies_like(tensor, meta.strides):
                raise GpuError(
                    f"{step.op} returned {tuple(tensor.shape)} with strides {tensor.stride()} where the plan "
                    f"expects {meta.shape} with {meta.strides}",
                    step.line,
                )
        return results

    return call
