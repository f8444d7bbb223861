"""Tensors of a plan in guarded memory: aligned as declared, poisoned where undefined.

Owns the memory of one execution. A buffer has guard zones on both sides, filled with a pattern that is
a NaN in every float format, so that a stray read spoils the result and a stray write is seen. Runs in
worker processes only: it imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from workbench.emulator.module import Memory
from workbench.model import DTYPE_BYTES, DType, TensorMeta

Storage = Callable[[int], torch.Tensor]
"""Gives so many bytes that a kernel can reach, contents undefined."""
GUARD_BYTES = 4096
NAN_BYTE, INT_BYTE = 0xFF, 0x7F

TORCH_DTYPES: dict[DType, torch.dtype] = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8,
    "bool": torch.bool,
}  # fmt: skip


def _elements(count: int) -> str:
    return "1 element" if count == 1 else f"{count} elements"


@dataclass(frozen=True)
class Buffer:
    """One allocation. Views share it: see ``Tensor``."""

    label: str
    """For messages: an argument's own name, ``output``, ``workspace %0``."""
    meta: TensorMeta
    raw: torch.Tensor
    """All bytes, guard zones included."""
    start: int
    """Offset of the first element in ``raw``, bytes."""
    nbytes: int
    """From the first element to the end of the last one, gaps of strides included."""
    read_only: bool
    marks: torch.Tensor | None
    """One byte for each byte of the buffer, set by the runtime once it is written."""

    @property
    def address(self) -> int:
        """Of the first element."""
        return self.raw.data_ptr() + self.start

    def look(self, meta: TensorMeta, offset: int = 0) -> torch.Tensor:
        """The elements under some shape and strides, ``offset`` elements from the start."""
        elements = self.raw[self.start : self.start + self.nbytes].view(TORCH_DTYPES[meta.dtype])
        return elements.as_strided(meta.shape, meta.strides, elements.storage_offset() + offset)

    def memory(self) -> Memory:
        """What the runtime is told."""
        return Memory(
            low=self.address,
            high=self.address + self.nbytes,
            item_bytes=DTYPE_BYTES[self.meta.dtype],
            read_only=self.read_only,
            marks=0 if self.marks is None else self.marks.data_ptr(),
        )

    def broken_guard(self) -> str | None:
        """Say which guard zone was written to; None when both are whole."""
        poison = poison_byte(self.meta.dtype)
        before, after = self.raw[: self.start], self.raw[self.start + self.nbytes :]
        item = DTYPE_BYTES[self.meta.dtype]
        changed = (after != poison).nonzero()
        if len(changed):
            return f"{_elements(int(changed[0]) // item + 1)} past the end"
        changed = (before != poison).nonzero()
        if len(changed):
            return f"{_elements((self.start - int(changed[-1]) - 1) // item + 1)} before the start"
        return None


def poison_byte(dtype: DType) -> int:
    """A byte that fills an element with NaN, or with a large integer."""
    return NAN_BYTE if dtype in ("f64", "f32", "f16", "bf16") else INT_BYTE


def extent_bytes(meta: TensorMeta) -> int:
    """Bytes from the first element to the end of the last one."""
    if meta.numel == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(meta.shape, meta.strides, strict=True))
    return (last + 1) * DTYPE_BYTES[meta.dtype]


def allocate(
    label: str, meta: TensorMeta, storage: Storage, *, read_only: bool = False, mark: bool = False
) -> Buffer:
    """A poisoned buffer whose address is a multiple of ``meta.alignment`` and of no larger power of two."""
    nbytes = extent_bytes(meta)
    raw = storage(nbytes + 2 * GUARD_BYTES + 512).fill_(poison_byte(meta.dtype))
    alignment = max(meta.alignment, DTYPE_BYTES[meta.dtype])
    wanted = 0 if alignment >= 256 else alignment
    period = 256 if alignment >= 256 else 2 * alignment
    start = GUARD_BYTES + (wanted - raw.data_ptr() - GUARD_BYTES) % period
    marks = storage(nbytes + 16).zero_() if mark else None
    return Buffer(label, meta, raw, start, nbytes, read_only, marks)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as integers of the same size: NaN equals itself, -0 differs from 0."""
    sizes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(sizes[tensor.element_size()])


def same_bits(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> bool:
    """Bit for bit equal, NaN included."""
    return len(left) == len(right) and all(
        torch.equal(bits(a), bits(b)) for a, b in zip(left, right, strict=True)
    )


def alone(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with its strides in a storage of its own, without guard zones and what else lies there.

    Operations that step through a storage count from its beginning, and some copy all of it.
    """
    if not tensor.numel():
        return tensor
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((span,), (1,)).clone().as_strided(tensor.shape, tensor.stride(), 0)


def unwritten(buffer: Buffer, meta: TensorMeta, offset: int) -> torch.Tensor:
    """Indices of the elements with a byte that was never written, one row an element."""
    if buffer.marks is None or meta.numel == 0:
        return torch.empty((0, len(meta.shape)), dtype=torch.int64)
    item = DTYPE_BYTES[meta.dtype]
    marks = buffer.marks[: buffer.nbytes].view(-1, item).amin(dim=1)
    return (marks.as_strided(meta.shape, meta.strides, offset) == 0).nonzero()
