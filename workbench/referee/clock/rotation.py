"""Copies of small inputs and weights, so that no sample finds its tensors where the last one left them.

Runs in a worker child. Huge inputs are not copied: they do not fit L2 anyway.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from workbench.referee.clock.options import ClockOptions


def rotations(nbytes: int, options: ClockOptions) -> int:
    """How many sets of tensors of ``nbytes`` together to rotate over; 1 where one set is large enough."""
    if nbytes <= 0 or nbytes >= options.rotate_bytes:
        return 1
    return min(options.rotations, math.ceil(options.rotate_bytes / nbytes) + 1)


def rotated(tensors: Mapping[str, Tensor], options: ClockOptions) -> tuple[dict[str, Tensor], ...]:
    """The tensors themselves, then copies with the same values, strides and alignment."""
    nbytes = sum(tensor.untyped_storage().nbytes() for tensor in tensors.values())
    count = rotations(nbytes, options)
    sets = [dict(tensors)]
    sets += [{name: _copy(tensor) for name, tensor in tensors.items()} for _ in range(count - 1)]
    return tuple(sets)


def _copy(tensor: Tensor) -> Tensor:
    """A tensor of its own storage, laid out as the original down to the offset."""
    storage = tensor.untyped_storage()
    whole = torch.empty(storage.nbytes(), dtype=torch.uint8, device=tensor.device)
    whole.untyped_storage().copy_(storage)
    made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return made.set_(whole.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())
