"""Shared memory between the trusted child and the solution's process: tensors as plain bytes.

Owns the layout. Both sides map the same memory; the trusted side copies out before it looks, so that
what it compares cannot change under it. No pickles.
"""

from __future__ import annotations

import mmap
import os
from typing import Any

import torch
from torch import Tensor

from workbench.model import TensorMeta
from workbench.numerics.dtypes import TORCH, name_of

ARENA_BYTES = 2**33
"""Address space of one arena; memory is taken when it is written."""
ALIGNMENT = 256


class Full(Exception):
    """The tensors of one question do not fit."""


class Arena:
    """One direction: whoever writes puts tensors one after the other."""

    def __init__(self, size: int = ARENA_BYTES) -> None:
        descriptor = os.memfd_create("arena")
        os.ftruncate(descriptor, size)
        self._memory = mmap.mmap(descriptor, size)
        os.close(descriptor)  # a forked process has the mapping
        self._bytes = torch.frombuffer(self._memory, dtype=torch.uint8)
        self.size = size
        self._next = 0

    def clear(self) -> None:
        """Start again at the front."""
        self._next = 0

    def reserve(self, nbytes: int) -> int:
        """Offset of the next free ``nbytes``. Raises ``Full``."""
        start = -(-self._next // ALIGNMENT) * ALIGNMENT
        if start + nbytes > self.size:
            raise Full(f"{nbytes} bytes do not fit")
        self._next = start + nbytes
        return start

    def put(self, tensor: Tensor) -> dict[str, Any]:
        """Write a tensor; the note says where it lies and how it is laid out at its reader's."""
        note = {
            "dtype": name_of(tensor.dtype),
            "shape": list(tensor.shape),
            "strides": list(tensor.stride()),
            "offset": self.reserve(tensor.numel() * tensor.element_size()),
        }
        self.view(note).copy_(tensor)
        return note

    def view(self, note: dict[str, Any]) -> Tensor:
        """The tensor at a place, contiguous, sharing the arena's memory."""
        dtype, shape, offset = TORCH[note["dtype"]], tuple(note["shape"]), int(note["offset"])
        count = 1
        for size in shape:
            count *= size
        width = torch.empty((), dtype=dtype).element_size()
        return self._bytes[offset : offset + count * width].view(dtype).reshape(shape)


def meta_of(note: dict[str, Any]) -> TensorMeta:
    """Layout that a tensor had at its writer's."""
    return TensorMeta(dtype=note["dtype"], shape=tuple(note["shape"]), strides=tuple(note["strides"]))
