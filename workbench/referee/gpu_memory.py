"""Input tensors of a kernel on a GPU: aligned as declared, between guard zones, fingerprinted.

Owns the memory of one check's inputs. A stray write into an input or its guards changes its fingerprint;
a stray read just outside reads NaN. Works on any torch device; runs in worker children only.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.emulator.buffers import GUARD_BYTES, extent_bytes, poison_byte
from workbench.model import DTYPE_BYTES, TensorMeta
from workbench.numerics.dtypes import TORCH

PIECE = 2**22
"""Words fingerprinted at once: 32 MB, and twice that on the way."""
ODD = 0x9E3779B97F4A7C15 - 2**64
"""Multiplier of the positions, so that swapped words are seen."""


@dataclass(frozen=True, eq=False)
class Guarded:
    """One tensor in memory of its own."""

    name: str
    meta: TensorMeta
    raw: Tensor
    """All bytes, guards included; a multiple of 8."""
    start: int
    """Offset of the first element, bytes."""
    tensor: Tensor

    def fingerprint(self) -> Tensor:
        """A number, still on the device, that depends on every byte, guards included."""
        return fingerprint(self.raw)

    def broken_guard(self) -> bool:
        """True when something was written outside the tensor."""
        end = self.start + extent_bytes(self.meta)
        poison = poison_byte(self.meta.dtype)
        return bool((self.raw[: self.start] != poison).any() | (self.raw[end:] != poison).any())


def guarded(name: str, meta: TensorMeta, device: str) -> Guarded:
    """Poisoned memory for a tensor whose address has the meta's alignment and no larger power of two."""
    nbytes = extent_bytes(meta)
    room = -(-(nbytes + 2 * GUARD_BYTES + 512) // 8) * 8
    raw = torch.empty(room, dtype=torch.uint8, device=device).fill_(poison_byte(meta.dtype))
    alignment = max(meta.alignment, DTYPE_BYTES[meta.dtype])
    wanted = 0 if alignment >= 256 else alignment
    period = 256 if alignment >= 256 else 2 * alignment
    start = GUARD_BYTES + (wanted - raw.data_ptr() - GUARD_BYTES) % period
    elements = raw[start : start + nbytes].view(TORCH[meta.dtype])
    tensor = elements.as_strided(meta.shape, meta.strides, elements.storage_offset())
    return Guarded(name, meta, raw, start, tensor)


def fingerprint(values: Tensor) -> Tensor:
    """Position-weighted sum of all bits, modulo 2**64, as a tensor without axes on the same device."""
    total = torch.zeros((), dtype=torch.int64, device=values.device)
    words = _words(values)
    for first in range(0, words.numel(), PIECE):
        part = words[first : first + PIECE].to(torch.int64)
        place = torch.arange(first, first + part.numel(), dtype=torch.int64, device=values.device)
        total += ((part + 1) * (place * ODD | 1)).sum()
    return total


def _words(values: Tensor) -> Tensor:
    """The bits as the widest integers that fit, in order."""
    flat = values.contiguous().reshape(-1)
    flat = flat.as_strided(flat.shape, (1,)).view(torch.uint8)  # the stride of one element may be nothing
    for dtype, width in ((torch.int64, 8), (torch.int32, 4), (torch.int16, 2)):
        if flat.numel() % width == 0 and flat.storage_offset() % width == 0:
            return flat.view(dtype)
    return flat
